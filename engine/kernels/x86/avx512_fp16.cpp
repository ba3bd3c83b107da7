// What processors with AVX512-FP16 have beside the set of AVX-512: sums and products in float16. Each instruction rounds once, so the bits
// are those of float32 lanes over converted numbers.
#include <immintrin.h>

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

}  // namespace

KernelSet with_float16(KernelSet set) {
  set.add_halves = add;
  set.relu_halves = relu;
  return set;
}

}  // namespace vitro
