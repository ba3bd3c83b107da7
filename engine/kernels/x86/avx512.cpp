// AVX-512 (F, BW, VL, VNNI): one register holds the 16 lanes.
#include <immintrin.h>

#include "engine/kernels/common/table.hpp"
#include "engine/kernels/x86/row_scales.hpp"
#include "engine/kernels/x86/sets.hpp"

namespace vitro {
namespace {

struct Vector {
  static constexpr int kRows = 4, kBatch = 4;
  __m512 v;

  static Vector all(float x) { return {_mm512_set1_ps(x)}; }
  static Vector zero() { return {_mm512_setzero_ps()}; }
  static Vector load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vector load(const Half* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(Half* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  friend Vector operator+(Vector a, Vector b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vector operator-(Vector a, Vector b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Vector operator*(Vector a, Vector b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Vector operator/(Vector a, Vector b) { return {_mm512_div_ps(a.v, b.v)}; }
  friend Vector fma(Vector a, Vector b, Vector c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  // vpermps looks up in a register of 16 floats, by the low four bits of each index: here the 16 weights a block can have.
  static Vector halves(lanes::SignedBytes high, lanes::SignedBytes low) {
    const __m128i upper = reinterpret_cast<__m128i>(high), lower = reinterpret_cast<__m128i>(low);
    return {_mm512_cvtph_ps(_mm256_set_m128i(_mm_unpackhi_epi8(lower, upper), _mm_unpacklo_epi8(lower, upper)))};
  }
  static void nibbles(const std::byte* p, Vector scale, Vector& low, Vector& high) {
    const Vector weights = Vector{_mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7)} * scale;
    const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    low = {_mm512_permutexvar_ps(both, weights.v)};
    high = {_mm512_permutexvar_ps(_mm512_srli_epi32(both, 4), weights.v)};
  }
  // Four registers hold the scales of 15 blocks of 9 words each, and the beginning of the last one.
  static Vector scales_of_16(const std::byte* blocks) {
    const auto load = [&](int i) { return _mm512_loadu_si512(blocks + 64 * i); };
    const auto words = [](__m512i first, __m128i which, __m512i second) {
      return _mm512_castsi512_si128(_mm512_permutex2var_epi16(first, _mm512_castsi128_si512(which), second));
    };
    const __m128i low = words(load(0), _mm_setr_epi16(0, 9, 18, 27, 36, 45, 54, 63), load(1));
    const __m128i high = words(load(2), _mm_setr_epi16(8, 17, 26, 35, 44, 53, 62, 0), load(3));
    std::int16_t last;
    __builtin_memcpy(&last, blocks + 15 * lanes::kQ4Bytes, sizeof last);
    return {_mm512_cvtph_ps(_mm256_set_m128i(_mm_insert_epi16(high, last, 7), low))};
  }
  static Vector gather(const float* x, const std::byte* positions) {
    const __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions)));
    return {_mm512_i32gather_ps(at, x, 4)};
  }
  static Vector floats(lanes::SignedBytes q) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(reinterpret_cast<__m128i>(q)))}; }
  friend Vector select_less(Vector a, Vector b, Vector yes, Vector no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
  }
  Vector made_odd(Vector error) const {
    const __m512 zero = _mm512_setzero_ps();
    const __m512i bits = _mm512_castps_si512(v), one = _mm512_set1_epi32(1);
    const __mmask16 inexact = _mm512_cmp_ps_mask(error.v, zero, _CMP_NEQ_OQ), even = _mm512_testn_epi32_mask(bits, one);
    // 1 where the error has the sign of the sum, else -1.
    const __m512i signs = _mm512_srai_epi32(_mm512_xor_si512(bits, _mm512_castps_si512(error.v)), 31);
    return {_mm512_castsi512_ps(_mm512_mask_add_epi32(bits, inexact & even, bits, _mm512_or_si512(signs, one)))};
  }
  Vector power_of_two() const {
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(v), 23), _mm512_set1_epi32(0x3f800000)))};
  }
  Vector magnitude() const { return {_mm512_abs_ps(v)}; }
  friend Vector larger(Vector a, Vector b) { return {_mm512_max_ps(a.v, b.v)}; }
  float largest() const { return _mm512_reduce_max_ps(v); }
  friend std::int32_t store_bytes(Vector a, Vector b, std::int8_t* p) {
    const __m512i first = _mm512_castps_si512(a.v), second = _mm512_castps_si512(b.v);
    const __m256i bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(second), _mm512_cvtepi32_epi8(first));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
    const __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
    const __m128i s4 = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    const __m128i s2 = _mm_add_epi32(s4, _mm_unpackhi_epi64(s4, s4));
    return _mm_cvtsi128_si32(_mm_add_epi32(s2, _mm_shuffle_epi32(s2, 1)));
  }
  float sum() const {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v), high);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
  }
};

struct Target {
  using V = Vector;
  using Wide = __m512i;
  static constexpr int kBatch = 8;
  // vpdpbusd multiplies unsigned by signed: weights are the unsigned side, moved up by these.
  static constexpr std::int32_t kQuantsOffset = 128, kNibblesOffset = 8, kPlacedOffset = 8;
  using Ints = __m512i;
  using Quants = __m512i;
  struct NibblePair {
    __m512i low, high;
  };

  static Ints all(std::int32_t x) { return _mm512_set1_epi32(x); }
  static Quants quants(const std::byte* p) { return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128)); }
  static NibblePair nibbles(const std::byte* p) {
    __m512i both = _mm512_loadu_si512(p);
    asm("" : "+v"(both));  // else g++ 12 loads it for each half
    return halves(both);
  }
  static NibblePair nibbles(const std::byte* const* rows, std::size_t at) {
    const auto load = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + at)); };
    __m512i v = _mm512_inserti32x4(_mm512_castsi128_si512(load(0)), load(1), 1);
    v = _mm512_inserti32x4(_mm512_inserti32x4(v, load(2), 2), load(3), 3);
    // Words of four columns change places between rows, then bytes between columns.
    v = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
    const __m128i columns = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return halves(_mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(columns)));
  }
  // Lane l gets rows 4 l to 4 l + 3, one from each of four registers, so that 4 x 4 words change places within lanes alone.
  struct Lines {
    __m512i line[4];
  };
  static Lines lines(const std::byte* const* rows, std::size_t at) {
    __m512i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto load = [&](int l) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[4 * l + i] + at)); };
      v[i] = _mm512_inserti32x4(_mm512_castsi128_si512(load(0)), load(1), 1);
      v[i] = _mm512_inserti32x4(_mm512_inserti32x4(v[i], load(2), 2), load(3), 3);
    }
    const __m512i low01 = _mm512_unpacklo_epi32(v[0], v[1]), high01 = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(v[2], v[3]), high23 = _mm512_unpackhi_epi32(v[2], v[3]);
    return {{_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23), _mm512_unpacklo_epi64(high01, high23),
             _mm512_unpackhi_epi64(high01, high23)}};
  }
  static NibblePair nibbles(const Lines& lines, int j) { return halves(lines.line[j]); }
  static Vector scales(const std::byte* const* rows, std::size_t at) {
    return {_mm512_cvtph_ps(_mm256_set_m128i(eight_scales(rows + 8, at), eight_scales(rows, at)))};
  }
  // Of 16 blocks of q4_0 at once: each row's by itself, then they change places.
  static void scales_of_16(const std::byte* const* rows, std::size_t at, float (*by_block)[lanes::kLanes]) {
    __m512 r[16], a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = Vector::scales_of_16(rows[i] + at).v;
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) a[i] = _mm512_unpacklo_ps(r[i], r[i + 1]), a[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    const auto low = [](__m512 x, __m512 y) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y))); };
    const auto high = [](__m512 x, __m512 y) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y))); };
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      b[i] = low(a[i], a[i + 2]), b[i + 1] = high(a[i], a[i + 2]);
      b[i + 2] = low(a[i + 1], a[i + 3]), b[i + 3] = high(a[i + 1], a[i + 3]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {  // lane l of b[4 g + k]: block 4 l + k of rows 4 g to 4 g + 3
      const __m512 first = _mm512_shuffle_f32x4(b[k], b[4 + k], 0x44), second = _mm512_shuffle_f32x4(b[8 + k], b[12 + k], 0x44);
      const __m512 third = _mm512_shuffle_f32x4(b[k], b[4 + k], 0xee), fourth = _mm512_shuffle_f32x4(b[8 + k], b[12 + k], 0xee);
      _mm512_store_ps(by_block[k], _mm512_shuffle_f32x4(first, second, 0x88));
      _mm512_store_ps(by_block[4 + k], _mm512_shuffle_f32x4(first, second, 0xdd));
      _mm512_store_ps(by_block[8 + k], _mm512_shuffle_f32x4(third, fourth, 0x88));
      _mm512_store_ps(by_block[12 + k], _mm512_shuffle_f32x4(third, fourth, 0xdd));
    }
  }
  static NibblePair halves(__m512i both) {
    const __m512i mask = _mm512_set1_epi8(15);
    return {_mm512_and_si512(both, mask), _mm512_and_si512(_mm512_srli_epi16(both, 4), mask)};
  }
  static void opaque(Quants& w) { asm volatile("" : "+v"(w)); }
  static __m512i four(const std::int8_t* x) {
    std::int32_t bits;
    __builtin_memcpy(&bits, x, 4);
    return _mm512_set1_epi32(bits);
  }
  // In assembly because g++ 12 copies the accumulator before the intrinsic, on a port that the multiplier needs.
  static Ints dot(Ints acc, Quants w, __m512i x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
    return acc;
  }
  static Ints sum(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Vector to_floats(Ints v) { return {_mm512_cvtepi32_ps(v)}; }

  using ValueRegister = __m512i;
  static ValueRegister value_register(const std::int8_t (&values)[16]) {
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
    return _mm512_xor_si512(_mm512_broadcast_i32x4(table), _mm512_set1_epi8(-128));
  }
  static NibblePair values(const std::byte* p, ValueRegister table) {
    const NibblePair which = nibbles(p);
    return {_mm512_shuffle_epi8(table, which.low), _mm512_shuffle_epi8(table, which.high)};
  }

  using Codes = __m512i;
  using Words = std::uint16_t __attribute__((vector_size(64)));
  static Codes codes(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void store(Codes v, std::byte* p) { _mm512_storeu_si512(p, v); }
  static Codes field(Codes v, int shift, int mask) {
    const Words words = reinterpret_cast<Words>(v);
    return _mm512_and_si512(reinterpret_cast<Codes>(shift < 0 ? words << -shift : words >> shift),
                            _mm512_set1_epi8(static_cast<char>(mask)));
  }
  static constexpr int kOctets = 8;
  using Octets = const std::int64_t (&)[kOctets];
  static __m512i octets(Octets v) { return _mm512_setr_epi64(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]); }
  static void with_signs(Octets entries, const std::byte* marks, std::byte* to) {
    const __m512i v = octets(entries);
    store(_mm512_mask_sub_epi8(v, mask_at(marks), _mm512_setzero_si512(), v), to);
  }
  static void with_deltas(Octets entries, const std::byte* marks, std::byte* to) {
    const __m512i v = _mm512_xor_si512(octets(entries), _mm512_set1_epi8(-128));
    store(_mm512_mask_sub_epi8(v, mask_at(marks), v, _mm512_set1_epi8(2)), to);
  }
  static __mmask64 mask_at(const std::byte* p) {
    __mmask64 mask;
    __builtin_memcpy(&mask, p, sizeof mask);
    return mask;
  }
  static Codes merge(Codes a, Codes b) { return _mm512_or_si512(a, b); }
  static Codes no_codes() { return _mm512_setzero_si512(); }
  // Each 128-bit lane picks its four rows out of a copy of all 16.
  static Codes spread(const std::byte* p) {
    const __m512i four_times = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
    const __m512i first_row = _mm512_set_epi64(0x0c0c0c0c0c0c0c0c, 0x0c0c0c0c0c0c0c0c, 0x0808080808080808, 0x0808080808080808,
                                               0x0404040404040404, 0x0404040404040404, 0, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                               _mm512_add_epi8(four_times, first_row));
  }
  static Codes add_plane(Codes codes, Codes spread, int half, int plane) {
    const __mmask64 set = _mm512_test_epi8_mask(spread, _mm512_set1_epi32(half == 0 ? 0x08040201 : static_cast<int>(0x80402010)));
    return _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(static_cast<char>(1 << plane)));
  }
  static Ints zeros(const std::byte* p, int shift, int mask) {
    const __m128i fields = _mm_srl_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_cvtsi32_si128(shift));
    return _mm512_cvtepu8_epi32(_mm_and_si128(fields, _mm_set1_epi8(static_cast<char>(mask))));
  }
  static Ints widened(const std::byte* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  // Both fit in 16 bits, where products are quicker.
  static Ints minus_product(Ints acc, Ints zeros, std::int32_t x) {
    return _mm512_sub_epi32(acc, _mm512_madd_epi16(zeros, _mm512_set1_epi16(static_cast<std::int16_t>(x))));
  }
  static Ints twice(Ints v) { return _mm512_slli_epi32(v, 1); }

  // A lane of 128 bits holds 16 rows of one table, so four tables are asked at once.
  static constexpr int kParts = 1, kChunksTogether = 2;
  static constexpr int tiles_together(int bits) { return bits <= 2 ? 4 : 2; }
  struct PlaneSums {
    __m512i low, high;
  };
  struct Tables {
    __m512i even_low, even_high, odd_low, odd_high;
  };
  static PlaneSums no_sums() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
  static Tables tables(const std::byte* p, int) { return {codes(p), codes(p + 64), codes(p + 128), codes(p + 192)}; }
  static void look_up(PlaneSums& sums, const std::byte* line, int, const Tables& t) {
    const __m512i both = codes(line), even = field(both, 0, 15), odd = field(both, 4, 15);
    sums.low = _mm512_add_epi8(sums.low, _mm512_add_epi8(_mm512_shuffle_epi8(t.even_low, even), _mm512_shuffle_epi8(t.odd_low, odd)));
    sums.high = _mm512_add_epi8(sums.high, _mm512_add_epi8(_mm512_shuffle_epi8(t.even_high, even), _mm512_shuffle_epi8(t.odd_high, odd)));
    asm("" : "+v"(sums.low), "+v"(sums.high));  // else g++ 12 gathers all additions at the end and spills what they wait for
  }
  // The four bytes of a row, one in each lane, come together, where the dot product instruction adds them up.
  static __m512i by_row(__m512i v) {
    const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, v), _mm512_broadcast_i32x4(bytes));
  }
  template <int Bits>
  static Ints gather(Ints acc, const PlaneSums (&sums)[Bits]) {
    __m512i high = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int i = 0; i < Bits; ++i) {
      const __m512i weight = _mm512_set1_epi8(static_cast<char>(1 << i));
      acc = dot(acc, by_row(sums[i].low), weight);
      high = dot(high, by_row(sums[i].high), weight);
    }
    return _mm512_add_epi32(acc, _mm512_slli_epi32(high, 4));
  }

  // Bytes of the two tables side by side, so that a multiply-add of pairs weighs and widens both: rows 0 to 7 of each lane, and 8 to 15.
  static constexpr int kRoundedChunks = 4;
  struct RoundedSums {
    __m512i first, second;
  };
  struct RoundedTables {
    __m512i even, odd;
  };
  static RoundedSums no_rounded_sums() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
  static RoundedTables rounded_tables(const std::byte* p, int) { return {codes(p), codes(p + 64)}; }
  static void look_up_rounded(RoundedSums& sums, const std::byte* line, int, const RoundedTables& t, int plane) {
    const __m512i both = codes(line), weight = _mm512_set1_epi8(static_cast<char>(1 << plane));
    const __m512i even = _mm512_shuffle_epi8(t.even, field(both, 0, 15)), odd = _mm512_shuffle_epi8(t.odd, field(both, 4, 15));
    sums.first = _mm512_add_epi16(sums.first, _mm512_maddubs_epi16(weight, _mm512_unpacklo_epi8(even, odd)));
    sums.second = _mm512_add_epi16(sums.second, _mm512_maddubs_epi16(weight, _mm512_unpackhi_epi8(even, odd)));
  }
  template <int Lane>
  static Ints rows_of_lane(const RoundedSums& sums) {
    return _mm512_cvtepi16_epi32(
        _mm256_set_m128i(_mm512_extracti32x4_epi32(sums.second, Lane), _mm512_extracti32x4_epi32(sums.first, Lane)));
  }
  static Ints gather_rounded(Ints acc, const RoundedSums& sums) {
    const Ints low = _mm512_add_epi32(rows_of_lane<0>(sums), rows_of_lane<1>(sums));
    return _mm512_add_epi32(_mm512_add_epi32(acc, low), _mm512_add_epi32(rows_of_lane<2>(sums), rows_of_lane<3>(sums)));
  }
};

}  // namespace

constinit const KernelSet kAvx512Set = make_kernel_set<Target>("avx512");

}  // namespace vitro
