// What processors with AVX512-FP16 have beside the set of AVX-512: sums and products in float16. Each instruction rounds once, so the bits
// are those of float32 lanes over converted numbers.
#include <immintrin.h>

#include "engine/kernels/common/lanes.hpp"
#include "engine/kernels/x86/sets.hpp"

namespace vitro {
namespace {

// y[i] = f(a, b at i), the rest of a row under a mask.
template <class F>
void each(const Half* a, const Half* b, std::size_t n, Half* y, F f) {
  for (std::size_t i = 0; i < n; i += 32) {
    const __mmask32 mask = n - i < 32 ? (1u << (n - i)) - 1 : ~0u;
    const __m512h u = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(mask, a + i));
    const __m512h v = _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(mask, b + i));
    _mm512_mask_storeu_epi16(y + i, mask, _mm512_castph_si512(f(u, v)));
  }
}

void add(const Half* a, const Half* b, std::size_t n, Half* y) {
  each(a, b, n, y, [](__m512h u, __m512h v) { return _mm512_add_ph(u, v); });
}

void relu(const Half* gate, const Half* up, std::size_t n, Half* h) {
  each(gate, up, n, h, [](__m512h g, __m512h u) {
    const __mmask32 positive = _mm512_cmp_ph_mask(g, _mm512_setzero_ph(), _CMP_GT_OQ);
    return _mm512_mul_ph(_mm512_castsi512_ph(_mm512_maskz_mov_epi16(positive, _mm512_castph_si512(g))), u);
  });
}

__m256h load(const Half* p) { return _mm256_loadu_ph(p); }

// The first `count` of 16 lanes; the others are 0.
__m256h load(const Half* p, std::size_t count) {
  return _mm256_castsi256_ph(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), p));
}

// Lanes 8 apart, 4, 2, 1.
float sum(__m256h lanes) {
  const auto folded = [](__m128h x, __m128i other) { return _mm_add_ph(x, _mm_castsi128_ph(other)); };
  const __m128h eight = folded(_mm256_castph256_ph128(lanes), _mm256_extracti128_si256(_mm256_castph_si256(lanes), 1));
  const __m128h four = folded(eight, _mm_srli_si128(_mm_castph_si128(eight), 8));
  const __m128h two = folded(four, _mm_srli_si128(_mm_castph_si128(four), 4));
  const __m128h one = folded(two, _mm_srli_si128(_mm_castph_si128(two), 2));
  return _mm_cvtss_f32(_mm_cvtsh_ss(_mm_setzero_ps(), one));
}

// Sums in float16: R rows of weights times M of activations, a register of 16 lanes each. No lambda: see lanes::dot_step.
template <int R, int M, class... Count>
[[gnu::always_inline]] inline void half_step(__m256h (&acc)[R][M], const Half* w, std::size_t w_stride, const Half* x,
                                             std::size_t x_stride, Count... count) {
  __m256h rows[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) rows[r] = load(w + r * w_stride, count...);
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
    const __m256h of_x = load(x + m * x_stride, count...);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) acc[r][m] = _mm256_fmadd_ph(rows[r], of_x, acc[r][m]);
  }
}

template <int R, int M>
void half_block(const Half* w, std::size_t w_stride, const Half* x, std::size_t x_stride, std::size_t n, float* y, std::size_t y_stride) {
  constexpr std::size_t kLanes = lanes::kLanes;
  __m256h acc[R][M];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) acc[r][m] = _mm256_setzero_ph();
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int r = 0; r < R; ++r) lanes::prefetch(w + (R + r) * w_stride, i * sizeof(Half));
    half_step(acc, w + i, w_stride, x + i, x_stride);
  }
  if (i < n) half_step(acc, w + i, w_stride, x + i, x_stride, n - i);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) y[m * y_stride + r] = sum(acc[r][m]);
}

template <int R>
void half_rows(const Half* w, std::size_t w_stride, const Rows<Half>& x, float* y, std::size_t y_stride) {
  std::size_t m = 0;
  for (; m + 4 <= x.count; m += 4) half_block<R, 4>(w, w_stride, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
  for (; m < x.count; ++m) half_block<R, 1>(w, w_stride, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
}

void half_sums(Rows<Half> w, Rows<Half> x, float* y, std::size_t y_stride) {
  std::size_t r = 0;
  for (; r + 4 <= w.count; r += 4) half_rows<4>(w.data + r * w.stride, w.stride, x, y + r, y_stride);
  for (; r < w.count; ++r) half_rows<1>(w.data + r * w.stride, w.stride, x, y + r, y_stride);
}

}  // namespace

KernelSet with_float16(KernelSet set) {
  set.add_halves = add;
  set.relu_halves = relu;
  set.half_sums = half_sums;
  return set;
}

}  // namespace vitro
