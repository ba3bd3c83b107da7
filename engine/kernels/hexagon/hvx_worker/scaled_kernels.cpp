// Two-level dequantisation with scales in the second table (scaled_tables.hpp), with IEEE products in the place of qfloat ones.
#include "engine/kernels/hexagon/hvx_worker/hvx_halves.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/scaled_tables.hpp"

namespace vitro::hexagon {
namespace {

struct Source {
  const HVX_Vector* planes;
  ZeroFields zeros;
  const HVX_Vector* scales;
  uint32_t step;  // vectors from a block's scales to the next one's; 0: rows have one
  const HVX_Vector* tables;
  uint32_t group, columns;
};

// Tables are made for each block, or once for rows of one scale. Groups of 32 have two for 64 columns.
template <uint32_t kBits, Zeros kZeros>
void tiles_of(const Source& from, HVX_Vector* out) {
  constexpr uint32_t kHalf = kUnitColumns / 2;
  HVX_Vector made[2][ScaledTables<kBits>::kVectors];
  const HVX_Vector repack = from.tables[0], marks = *vectors_at(kScaledMarks<kBits>.words);
  const uint32_t stride = from.columns / 2;
  const bool small = from.group == kHalf && from.step != 0;
  uint32_t block = 0, next = 0;  // next: the first column of the block whose tables are to be made
  for (uint32_t c = 0; c < from.columns; c += kUnitColumns) {
    const HVX_Vector* planes = from.planes + c / 8 * kBits;
    HVX_Vector* tiles = out + c / 2;
    const bool whole = c + kHalf < from.columns;
    for (uint32_t half = 0; half < (small && whole ? 2u : 1u); ++half) {
      if (c + half * kHalf < next) continue;
      scaled_tables<HvxHalves, kBits, kZeros>(from.zeros, block, from.scales + block * from.step, from.tables + 1, made[half]);
      ++block;
      next = from.step == 0 ? from.columns : next + from.group;
    }
    if (!whole) {
      scaled_unit<HvxHalves, kBits, true, false>(planes, repack, marks, made[0], made[0], stride, tiles);
    } else if (small) {
      scaled_unit<HvxHalves, kBits, false>(planes, repack, marks, made[0], made[1], stride, tiles);
    } else {
      scaled_unit<HvxHalves, kBits, true>(planes, repack, marks, made[0], made[0], stride, tiles);
    }
  }
}

template <Zeros kZeros>
constexpr decltype(&tiles_of<1, kZeros>) kByBits[4] = {tiles_of<1, kZeros>, tiles_of<2, kZeros>, tiles_of<3, kZeros>, tiles_of<4, kZeros>};

}  // namespace

// One zero point of the matrix, and signs, are in the values.
extern "C" void float_scaled_tiles(const unsigned char* planes, const ZeroFields& zeros, const uint16_t* scales, uint32_t step,
                                   const uint16_t* tables, uint32_t bits, uint32_t group, Zeros form, uint32_t blocks, uint16_t* tiles) {
  const auto* by_bits = form == Zeros::of_blocks ? kByBits<Zeros::of_blocks> : kByBits<Zeros::same>;
  by_bits[bits - 1]({vectors_at(planes), zeros, vectors_at(scales), step * 2 / kVectorBytes, vectors_at(tables), group, blocks * group},
                    vectors_at(tiles));
}

}  // namespace vitro::hexagon
