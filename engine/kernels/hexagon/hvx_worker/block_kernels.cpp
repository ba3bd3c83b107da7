// Products of int8 activations with blocks of q8_0 and q4_0 on the matrix unit: tiles of bytes, and what becomes of their integer sums.
#include "engine/kernels/hexagon/half.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {

extern "C" {

// A vector of nibbles is one of bytes in the low halves and one in the high halves.
[[gnu::noinline]] void hvx_nibble_tiles(const unsigned char* nibbles, uint32_t tiles, unsigned char* out) {
  const HVX_Vector mask = splat(0x0f0f0f0f), eight = splat(0x08080808);
  const HVX_Vector* in = vectors_at(nibbles);
  HVX_Vector* to = vectors_at(out);
  for (uint32_t v = 0; v < tiles * (kTileElements / 2 / kVectorBytes); ++v, to += 2) {
    const HVX_Vector both = in[v];
    to[0] = Q6_Vb_vsub_VbVb(Q6_V_vand_VV(both, mask), eight);
    to[1] = Q6_Vb_vsub_VbVb(Q6_V_vand_VV(shifted_nibbles(both), mask), eight);
  }
}

[[gnu::noinline]] void float_scale_sums(const int32_t* sums, uint32_t pitch, const uint16_t* scales, const float* x_scales,
                                        uint32_t x_pitch, uint32_t rows, uint32_t columns, uint32_t blocks, bool more, float* y,
                                        uint32_t y_pitch) {
  for (uint32_t row = 0; row < rows; ++row, sums += kTile, x_scales += x_pitch, y += y_pitch) {
    for (uint32_t c = 0; c < columns; ++c) {
      float acc = more ? y[c] : 0;
      for (uint32_t b = 0; b < blocks; ++b) {
        const float weight = half_value(scales[b * (2 * kTile) + 2 * c]);
        acc = __builtin_fmaf(static_cast<float>(sums[b * pitch + c]), weight * x_scales[b], acc);
      }
      y[c] = acc;
    }
  }
}

}  // extern "C"

}  // namespace vitro::hexagon
