// 32 x 32 words to their transpose, by exchanges between vectors. All of it belongs to the kernel that takes it, whose name has the price.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kHalfOfRows = 16;  // that registers hold, with room for results

// Rows a and b, kStep apart: words whose bit kStep is set in a change places with those of b in which it is not.
template <uint32_t kStep>
HVX_VectorPair exchange(HVX_Vector a, HVX_Vector b) {
  return Q6_W_vshuff_VVR(b, a, 4 * kStep);
}

template <uint32_t kStep>
static void exchange(HVX_Vector (&rows)[kHalfOfRows]) {
#pragma unroll
  for (uint32_t i = 0; i < kHalfOfRows; ++i) {
    if ((i & kStep) != 0) continue;
    const HVX_VectorPair both = exchange<kStep>(rows[i], rows[i + kStep]);
    rows[i] = Q6_V_lo_W(both);
    rows[i + kStep] = Q6_V_hi_W(both);
  }
}

// All steps but the last, which the other half of the rows takes part in.
template <class Rows>
[[gnu::always_inline]] inline void transpose_half(Rows row, HVX_Vector (&rows)[kHalfOfRows]) {
#pragma unroll
  for (uint32_t i = 0; i < kHalfOfRows; ++i) rows[i] = row(i);
  exchange<1>(rows);
  exchange<2>(rows);
  exchange<4>(rows);
  exchange<8>(rows);
}

// rows_of(half)(i): row i of the first or the second 16, taken in order. out: word by word of all rows; finish() may change two of its
// vectors beforehand.
template <class Rows, class Finish>
[[gnu::always_inline]] inline void transpose(Rows rows_of, Finish finish, HVX_Vector* out) {
  HVX_Vector rows[kHalfOfRows];
  transpose_half(rows_of(0), rows);
#pragma unroll
  for (uint32_t i = 0; i < kHalfOfRows; ++i) out[i] = rows[i];
  transpose_half(rows_of(1), rows);
#pragma unroll
  for (uint32_t i = 0; i < kHalfOfRows; ++i) {
    const HVX_VectorPair both = exchange<kHalfOfRows>(out[i], rows[i]);
    HVX_Vector low = Q6_V_lo_W(both), high = Q6_V_hi_W(both);
    finish(low, high);
    out[i] = low;
    out[i + kHalfOfRows] = high;
  }
}

}  // namespace vitro::hexagon
