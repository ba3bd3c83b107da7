// Two-level dequantisation of bit-serial panels (lut_stages.hpp), with IEEE products in the place of qfloat ones.
#include "engine/kernels/hexagon/hvx_worker/hvx_halves.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/lut_stages.hpp"

namespace vitro::hexagon {
namespace {

// Blocks pass 32 columns at a time, whatever their size: on a phone the qfloat form of each size is compiled (float_kernels.cpp).
constexpr uint32_t kStep = 32;

template <uint32_t kBits, Zeros kZeros>
void tiles_of(const HVX_Vector* planes, ZeroFields zeros, const HVX_Vector* scales, uint32_t step, const HVX_Vector* tables, uint32_t group,
              uint32_t blocks, uint32_t stride, HVX_Vector* tiles) {
  const HVX_Vector repack = tables[0], values = tables[1];
  for (uint32_t b = 0; b < blocks; ++b, ++zeros.first, scales += step) {
    for (uint32_t c = 0; c < group; c += kStep, planes += kStep / 8 * kBits, tiles += kStep / 2) {
      lut_dequantise<HvxHalves, kBits, kStep, kZeros>(planes, zeros, scales, repack, values, 1, tiles, stride);
    }
  }
}

template <Zeros kZeros>
constexpr decltype(&tiles_of<1, kZeros>) kByBits[4] = {tiles_of<1, kZeros>, tiles_of<2, kZeros>, tiles_of<3, kZeros>, tiles_of<4, kZeros>};

}  // namespace

// One zero point of the matrix, and signs, are in the second table.
extern "C" void float_lut_tiles(const unsigned char* planes, const ZeroFields& zeros, const uint16_t* scales, uint32_t step,
                                const uint16_t* tables, uint32_t bits, uint32_t group, Zeros form, uint32_t blocks, uint16_t* tiles) {
  const auto* by_bits = form == Zeros::of_blocks ? kByBits<Zeros::of_blocks> : kByBits<Zeros::same>;
  by_bits[bits - 1](vectors_at(planes), zeros, vectors_at(scales), step * 2 / kVectorBytes, vectors_at(tables), group, blocks,
                    blocks * (group / 2), vectors_at(tiles));
}

}  // namespace vitro::hexagon
