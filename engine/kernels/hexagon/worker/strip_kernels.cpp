// Tiles of the matrix unit from rows of fp16 as a file has them. A weight tile is the transpose with every two rows permuted (TTS-NPU
// Fig. 4): two halves of a row, one word, stay together, so a pair of tiles is a transpose of 32 x 32 words.
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/worker/hvx.hpp"
#include "engine/kernels/hexagon/worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kHalf = kTile / 2;  // rows that registers hold, with room for results

// Rows a and b, kStep apart: words whose bit kStep is set in a change places with those of b in which it is not.
template <uint32_t kStep>
HVX_VectorPair exchange(HVX_Vector a, HVX_Vector b) {
  return Q6_W_vshuff_VVR(b, a, 4 * kStep);
}

template <uint32_t kStep>
void exchange(HVX_Vector (&rows)[kHalf]) {
#pragma unroll
  for (uint32_t i = 0; i < kHalf; ++i) {
    if ((i & kStep) != 0) continue;
    const HVX_VectorPair both = exchange<kStep>(rows[i], rows[i + kStep]);
    rows[i] = Q6_V_lo_W(both);
    rows[i + kStep] = Q6_V_hi_W(both);
  }
}

// All steps but the last, which the other half of the rows takes part in.
void transpose(const HVX_Vector* in, HVX_Vector (&rows)[kHalf]) {
#pragma unroll
  for (uint32_t i = 0; i < kHalf; ++i) rows[i] = in[i];
  exchange<1>(rows);
  exchange<2>(rows);
  exchange<4>(rows);
  exchange<8>(rows);
}

}  // namespace

extern "C" [[gnu::noinline]] void hvx_f16_tiles(const unsigned char* strip, uint32_t pairs, uint16_t* tiles) {
  const HVX_Vector* in = vectors_at(strip);
  HVX_Vector* out = vectors_at(tiles);
  for (uint32_t p = 0; p < pairs; ++p, in += kTile, out += kTile) {
    HVX_Vector rows[kHalf];
    transpose(in, rows);
#pragma unroll
    for (uint32_t i = 0; i < kHalf; ++i) out[i] = rows[i];
    transpose(in + kHalf, rows);
#pragma unroll
    for (uint32_t i = 0; i < kHalf; ++i) {
      const HVX_VectorPair both = exchange<kHalf>(out[i], rows[i]);
      out[i] = Q6_V_lo_W(both);
      out[i + kHalf] = Q6_V_hi_W(both);
    }
  }
}

}  // namespace vitro::hexagon
