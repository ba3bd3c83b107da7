// AVX2, FMA and F16C: two registers hold the 16 lanes, 0-7 in `a`, 8-15 in `b`.
#include <immintrin.h>

#include "engine/kernels/table.hpp"
#include "engine/kernels/x86/sets.hpp"

namespace vitro {
namespace {

struct Vector {
  static constexpr int kRows = 2, kBatch = 2;
  __m256 a, b;

  static Vector all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vector zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vector load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vector load(const Half* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  void store(float* p) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }
  void store(Half* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
  }
  friend Vector operator+(Vector x, Vector y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  friend Vector operator-(Vector x, Vector y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  friend Vector operator*(Vector x, Vector y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  friend Vector operator/(Vector x, Vector y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  friend Vector fma(Vector x, Vector y, Vector z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static void nibbles(const std::byte* p, Vector scale, Vector& low, Vector& high) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), mask = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    const auto floats = [](__m128i w) {
      return Vector{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(w)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(w, w)))};
    };
    low = floats(_mm_sub_epi8(_mm_and_si128(both, mask), eight)) * scale;
    high = floats(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(both, 4), mask), eight)) * scale;
  }
  friend Vector select_less(Vector x, Vector y, Vector yes, Vector no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
  }
  static __m256 power(__m256 x) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(x), 23), _mm256_set1_epi32(0x3f800000)));
  }
  Vector power_of_two() const { return {power(a), power(b)}; }
  float sum() const {
    const __m256 s8 = _mm256_add_ps(a, b);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
  }
};

struct Target {
  using V = Vector;
  using Wide = __m256i;
  static constexpr int kBatch = 2;
  // vpmaddubsw multiplies unsigned by signed and saturates pairs at 16 bits. Nibbles plus 8 can not reach that; int8
  // weights go in as |w| * (x with the sign of w), at most 2 * 128 * 127.
  static constexpr std::int32_t kQuantsOffset = 0, kNibblesOffset = 8, kPlacedOffset = 8;
  struct Ints {
    __m256i a, b;
  };
  struct Quants {
    __m256i a, b;
  };
  struct Nibbles {
    __m256i a, b;
  };
  struct NibblePair {
    Nibbles low, high;
  };

  static __m256i load(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Ints all(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static Quants quants(const std::byte* p) { return {load(p), load(p + 32)}; }
  static NibblePair nibbles(const std::byte* p) { return halves(load(p), load(p + 32)); }
  static NibblePair halves(__m256i a, __m256i b) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {{_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)},
            {_mm256_and_si256(_mm256_srli_epi16(a, 4), mask), _mm256_and_si256(_mm256_srli_epi16(b, 4), mask)}};
  }
  static NibblePair nibbles(const std::byte* const* rows, std::size_t at) {
    __m128i r[4];
    for (int i = 0; i < 4; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + at));
    const __m128i low01 = _mm_unpacklo_epi8(r[0], r[1]), low23 = _mm_unpacklo_epi8(r[2], r[3]);
    const __m128i high01 = _mm_unpackhi_epi8(r[0], r[1]), high23 = _mm_unpackhi_epi8(r[2], r[3]);
    const __m256i a = _mm256_set_m128i(_mm_unpackhi_epi16(low01, low23), _mm_unpacklo_epi16(low01, low23));
    const __m256i b = _mm256_set_m128i(_mm_unpackhi_epi16(high01, high23), _mm_unpacklo_epi16(high01, high23));
    return halves(a, b);
  }
  static __m256i four(const std::int8_t* x) {
    std::int32_t bits;
    __builtin_memcpy(&bits, x, 4);
    return _mm256_set1_epi32(bits);
  }
  static __m256i add_dot(__m256i acc, __m256i positive, __m256i x) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(positive, x), _mm256_set1_epi16(1)));
  }
  static void opaque(Nibbles& w) { asm volatile("" : "+x"(w.a), "+x"(w.b)); }
  static Ints dot(Ints acc, Nibbles w, __m256i x) { return {add_dot(acc.a, w.a, x), add_dot(acc.b, w.b, x)}; }
  static Ints dot(Ints acc, Quants w, __m256i x) {
    return {add_dot(acc.a, _mm256_abs_epi8(w.a), _mm256_sign_epi8(x, w.a)), add_dot(acc.b, _mm256_abs_epi8(w.b), _mm256_sign_epi8(x, w.b))};
  }
  static Vector to_floats(Ints v) { return {_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
};

}  // namespace

constinit const KernelSet kAvx2Set = make_kernel_set<Target>("avx2");

}  // namespace vitro
