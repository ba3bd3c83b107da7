// Dot products of int8 activations with q8_0 and q4_0 weights: one 32-bit lane per row, four columns per vrmpy.
#include "engine/kernels/hexagon/half.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

// Four consecutive quants of a block, in all lanes.
HVX_Vector four(const Int8Block& x, uint32_t step) { return splat(reinterpret_cast<const int32_t*>(x.quants)[step]); }

struct Q8 {
  static constexpr uint32_t kVectors = 8;  // of a block of 32 rows
  template <uint32_t M>
  static void dot(const HVX_Vector* w, const Int8Block* x, uint32_t x_stride, HVX_Vector (&acc)[M]) {
    for (uint32_t m = 0; m < M; ++m) acc[m] = Q6_V_vzero();
#pragma unroll
    for (uint32_t j = 0; j < kVectors; ++j) {
      const HVX_Vector quants = w[j];
      for (uint32_t m = 0; m < M; ++m) acc[m] = Q6_Vw_vrmpyacc_VwVbVb(acc[m], quants, four(x[m * x_stride], j));
    }
  }
};

// Nibbles stay unsigned: what the offset of 8 adds is taken off by the sum of the activations.
struct Q4 {
  static constexpr uint32_t kVectors = 4;
  template <uint32_t M>
  static void dot(const HVX_Vector* w, const Int8Block* x, uint32_t x_stride, HVX_Vector (&acc)[M]) {
    const HVX_Vector mask = splat(0x0f0f0f0f);
    for (uint32_t m = 0; m < M; ++m) acc[m] = splat(-8 * x[m * x_stride].sum);
#pragma unroll
    for (uint32_t j = 0; j < kVectors; ++j) {
      const HVX_Vector both = w[j];
      const HVX_Vector low = Q6_V_vand_VV(both, mask), high = Q6_V_vand_VV(shifted_nibbles(both), mask);
      for (uint32_t m = 0; m < M; ++m) {
        acc[m] = Q6_Vw_vrmpyacc_VwVubVb(acc[m], low, four(x[m * x_stride], j));
        acc[m] = Q6_Vw_vrmpyacc_VwVubVb(acc[m], high, four(x[m * x_stride], j + 4));
      }
    }
  }
};

template <class Form, uint32_t M>
void blocks_of(const unsigned char* panel, const Int8Block* x, uint32_t x_stride, uint32_t blocks, int32_t* dots) {
  const HVX_Vector* w = vectors_at(panel);
  HVX_Vector* out = vectors_at(dots);
  for (uint32_t b = 0; b < blocks; ++b, w += Form::kVectors) {
    HVX_Vector acc[M];
    Form::template dot<M>(w, x + b, x_stride, acc);
    for (uint32_t m = 0; m < M; ++m) out[m * blocks + b] = acc[m];
  }
}

template <class Form>
void dots_of(const unsigned char* panel, const Int8Block* x, uint32_t x_stride, uint32_t batch, uint32_t blocks, int32_t* dots) {
  if (batch == kBatchTogether) return blocks_of<Form, kBatchTogether>(panel, x, x_stride, blocks, dots);
  for (uint32_t m = 0; m < batch; ++m) blocks_of<Form, 1>(panel, x + m * x_stride, x_stride, blocks, dots + m * blocks * kPanelRows);
}

}  // namespace

extern "C" {

[[gnu::noinline]] void hvx_dots_q8_0(const unsigned char* panel, const Int8Block* x, uint32_t x_stride, uint32_t batch, uint32_t blocks,
                                     int32_t* dots) {
  dots_of<Q8>(panel, x, x_stride, batch, blocks, dots);
}

[[gnu::noinline]] void hvx_dots_q4_0(const unsigned char* panel, const Int8Block* x, uint32_t x_stride, uint32_t batch, uint32_t blocks,
                                     int32_t* dots) {
  dots_of<Q4>(panel, x, x_stride, batch, blocks, dots);
}

[[gnu::noinline]] void float_accumulate(const int32_t* dots, const uint16_t* scales, uint32_t step, const float* x_scales, uint32_t stride,
                                        uint32_t blocks, uint32_t panel_rows, uint32_t rows, bool more, float* y) {
  for (uint32_t row = 0; row < rows; ++row) {
    float acc = more ? y[row] : 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      const float weight = half_value(scales[b * step + row]);
      acc = __builtin_fmaf(static_cast<float>(dots[b * panel_rows + row]), weight * x_scales[b * stride], acc);
    }
    y[row] = acc;
  }
}

}  // extern "C"

}  // namespace vitro::hexagon
