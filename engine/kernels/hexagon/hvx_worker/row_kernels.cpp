// Rows of weights that lie in places of their own, as a file has them.
#include "engine/kernels/hexagon/half.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kLanes = kVectorBytes / 4;

// Offsets of a gather of halfwords: those of even ones, and of odd ones.
struct Offsets {
  union alignas(kVectorBytes) {
    uint32_t word[2][kLanes];
    HVX_Vector vector[2];
  };
  HVX_VectorPair pair() const { return Q6_W_vcombine_VV(vector[1], vector[0]); }
};

void gather(HVX_Vector* out, const unsigned char* from, uint32_t room, HVX_VectorPair offsets) {
  Q6_vgather_ARMWw(out, reinterpret_cast<uintptr_t>(from), room - 1, offsets);
}

}  // namespace

extern "C" {

// Four bytes of each of 32 rows are a vector: two halfwords of a row side by side, since blocks begin at odd ones. Scales of two blocks are
// one, row by row.
[[gnu::noinline]] void hvx_gather_panel(const unsigned char* rows, uint32_t pitch, uint32_t blocks, uint32_t block, uint32_t room,
                                        unsigned char* scales, unsigned char* quants) {
  Offsets of_quants, of_scales;
  for (uint32_t i = 0; i < kLanes; ++i) {
    for (uint32_t odd = 0; odd < 2; ++odd) {
      of_quants.word[odd][i] = i * pitch + 2 * odd;
      of_scales.word[odd][i] = (2 * i % kPanelRows + odd) * pitch + (i < kLanes / 2 ? 0 : block);
    }
  }
  const HVX_VectorPair in_quants = of_quants.pair(), in_scales = of_scales.pair();
  HVX_Vector *out = vectors_at(quants), *of_blocks = vectors_at(scales);
  for (uint32_t b = 0; b < blocks; ++b, rows += block, room -= block) {
    if (b % 2 == 0) gather(of_blocks++, rows, room, in_scales);
    for (uint32_t byte = 2; byte < block; byte += 4) gather(out++, rows + byte, room - byte, in_quants);
  }
}

[[gnu::noinline]] void float_add_row(const unsigned char* row, uint32_t bits, uint32_t columns, float h, float* y) {
  const auto* halves = reinterpret_cast<const uint16_t*>(row);
  if (bits == 16) {
    for (uint32_t c = 0; c < columns; ++c) y[c] = __builtin_fmaf(h, half_value(halves[c]), y[c]);
    return;
  }
  const uint32_t half = kBlockColumns / 2;
  for (uint32_t b = 0; b < columns / kBlockColumns; ++b, y += kBlockColumns) {
    const auto* quants = reinterpret_cast<const int8_t*>(row + 2);
    const float scale = half_value(*reinterpret_cast<const uint16_t*>(row));
    for (uint32_t i = 0; i < kBlockColumns; ++i) {
      const int32_t q = bits == 8 ? quants[i] : i < half ? (quants[i] & 15) - 8 : (quants[i - half] >> 4 & 15) - 8;
      y[i] = __builtin_fmaf(h, scale * static_cast<float>(q), y[i]);
    }
    row += 2 + kBlockColumns * bits / 8;
  }
}

}  // extern "C"

}  // namespace vitro::hexagon
