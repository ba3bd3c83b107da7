// AVX2, FMA and F16C: two registers hold the 16 lanes, 0-7 in `a`, 8-15 in `b`.
#include <immintrin.h>

#include "engine/kernels/common/table.hpp"
#include "engine/kernels/x86/row_scales.hpp"
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
  static Vector floats(__m128i w) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(w)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(w, w)))};
  }
  static Vector floats(lanes::SignedBytes q) { return floats(reinterpret_cast<__m128i>(q)); }
  static Vector gather(const float* x, const std::byte* positions) {
    const auto at = [&](int i) { return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(positions + i))); };
    return {_mm256_i32gather_ps(x, at(0), 4), _mm256_i32gather_ps(x, at(16), 4)};
  }
  static Vector halves(lanes::SignedBytes high, lanes::SignedBytes low) {
    const __m128i upper = reinterpret_cast<__m128i>(high), lower = reinterpret_cast<__m128i>(low);
    return {_mm256_cvtph_ps(_mm_unpacklo_epi8(lower, upper)), _mm256_cvtph_ps(_mm_unpackhi_epi8(lower, upper))};
  }
  static void nibbles(const std::byte* p, Vector scale, Vector& low, Vector& high) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), mask = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    low = floats(_mm_sub_epi8(_mm_and_si128(both, mask), eight)) * scale;
    high = floats(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(both, 4), mask), eight)) * scale;
  }
  friend Vector select_less(Vector x, Vector y, Vector yes, Vector no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
  }
  static __m256 odd(__m256 x, __m256 error) {
    const __m256 zero = _mm256_setzero_ps();
    const __m256i bits = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
    const __m256i even = _mm256_cmpeq_epi32(_mm256_and_si256(bits, one), _mm256_setzero_si256());
    const __m256i inexact = _mm256_castps_si256(_mm256_cmp_ps(error, zero, _CMP_NEQ_OQ));
    // 1 where the error has the sign of the sum, else -1.
    const __m256i signs = _mm256_srai_epi32(_mm256_xor_si256(bits, _mm256_castps_si256(error)), 31);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_and_si256(_mm256_and_si256(even, inexact), _mm256_or_si256(signs, one))));
  }
  Vector made_odd(Vector error) const { return {odd(a, error.a), odd(b, error.b)}; }
  static __m256 power(__m256 x) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(x), 23), _mm256_set1_epi32(0x3f800000)));
  }
  Vector power_of_two() const { return {power(a), power(b)}; }
  Vector magnitude() const {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a), _mm256_andnot_ps(sign, b)};
  }
  friend Vector larger(Vector x, Vector y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  float largest() const {
    const __m256 m8 = _mm256_max_ps(a, b);
    const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
  }
  // Without kRoundMagic's own bits the lanes are small integers, which no packing saturates; packs take turns between the halves.
  friend std::int32_t store_bytes(Vector x, Vector y, std::int8_t* p) {
    const auto integers = [](__m256 v) { return _mm256_sub_epi32(_mm256_castps_si256(v), _mm256_set1_epi32(0x4b400000)); };
    const __m256i first = _mm256_packs_epi32(integers(x.a), integers(x.b)), second = _mm256_packs_epi32(integers(y.a), integers(y.b));
    const __m256i turns = _mm256_packs_epi16(first, second);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(turns, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    const __m256i twos = _mm256_add_epi16(first, second), fours = _mm256_madd_epi16(twos, _mm256_set1_epi16(1));
    const __m128i s4 = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    const __m128i s2 = _mm_add_epi32(s4, _mm_unpackhi_epi64(s4, s4));
    return _mm_cvtsi128_si32(_mm_add_epi32(s2, _mm_shuffle_epi32(s2, 1)));
  }
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
  // Lane l of a half gets four of its rows, one from each of four registers, so that 4 x 4 words change places within lanes alone.
  struct Lines {
    Nibbles line[4];
  };
  static Lines lines(const std::byte* const* rows, std::size_t at) {
    Lines out;
    const auto half = [&](const std::byte* const* eight, __m256i Nibbles::* part) __attribute__((always_inline)) {
      const auto load = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(eight[i] + at)); };
      const auto pair = [&](int i) { return _mm256_inserti128_si256(_mm256_castsi128_si256(load(i)), load(4 + i), 1); };
      const __m256i v0 = pair(0), v1 = pair(1), v2 = pair(2), v3 = pair(3);
      const __m256i low01 = _mm256_unpacklo_epi32(v0, v1), high01 = _mm256_unpackhi_epi32(v0, v1);
      const __m256i low23 = _mm256_unpacklo_epi32(v2, v3), high23 = _mm256_unpackhi_epi32(v2, v3);
      out.line[0].*part = _mm256_unpacklo_epi64(low01, low23);
      out.line[1].*part = _mm256_unpackhi_epi64(low01, low23);
      out.line[2].*part = _mm256_unpacklo_epi64(high01, high23);
      out.line[3].*part = _mm256_unpackhi_epi64(high01, high23);
    };
    half(rows, &Nibbles::a);
    half(rows + 8, &Nibbles::b);
    return out;
  }
  static NibblePair nibbles(const Lines& lines, int j) { return halves(lines.line[j].a, lines.line[j].b); }
  static Vector scales(const std::byte* const* rows, std::size_t at) {
    return {_mm256_cvtph_ps(eight_scales(rows, at)), _mm256_cvtph_ps(eight_scales(rows + 8, at))};
  }
  static __m256i four(const std::int8_t* x) {
    std::int32_t bits;
    __builtin_memcpy(&bits, x, 4);
    return _mm256_set1_epi32(bits);
  }
  static __m256i add_dot(__m256i acc, __m256i positive, __m256i x) { return widened_sum(acc, _mm256_maddubs_epi16(positive, x)); }
  static void opaque(Nibbles& w) { asm volatile("" : "+x"(w.a), "+x"(w.b)); }
  static Ints dot(Ints acc, Nibbles w, __m256i x) { return {add_dot(acc.a, w.a, x), add_dot(acc.b, w.b, x)}; }
  static Ints dot(Ints acc, Quants w, __m256i x) {
    return {add_dot(acc.a, _mm256_abs_epi8(w.a), _mm256_sign_epi8(x, w.a)), add_dot(acc.b, _mm256_abs_epi8(w.b), _mm256_sign_epi8(x, w.b))};
  }
  // What vpmaddubsw leaves adds up in 16 bits: of nibbles, 8 steps make at most 8 * 2 * 15 * 127.
  struct Pairs {
    __m256i a, b;
  };
  static Pairs no_pairs() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Pairs dot(Pairs acc, Nibbles w, __m256i x) {
    return {_mm256_add_epi16(acc.a, _mm256_maddubs_epi16(w.a, x)), _mm256_add_epi16(acc.b, _mm256_maddubs_epi16(w.b, x))};
  }
  static __m256i widened_sum(__m256i acc, __m256i pairs) { return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))); }
  static Ints add_pairs(Ints acc, Pairs pairs) { return {widened_sum(acc.a, pairs.a), widened_sum(acc.b, pairs.b)}; }
  static Vector to_floats(Ints v) { return {_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }

  using ValueRegister = __m256i;
  struct QuantPair {
    Quants low, high;
  };
  static ValueRegister value_register(const std::int8_t (&values)[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  }
  static QuantPair values(const std::byte* p, ValueRegister table) {
    const NibblePair which = nibbles(p);
    const auto named = [&](const Nibbles& v) { return Quants{_mm256_shuffle_epi8(table, v.a), _mm256_shuffle_epi8(table, v.b)}; };
    return {named(which.low), named(which.high)};
  }

  using Codes = Nibbles;
  using Words = std::uint16_t __attribute__((vector_size(32)));
  static __m256i field(__m256i v, int shift, int mask) {
    const Words words = reinterpret_cast<Words>(v);
    return _mm256_and_si256(reinterpret_cast<__m256i>(shift < 0 ? words << -shift : words >> shift),
                            _mm256_set1_epi8(static_cast<char>(mask)));
  }
  static Codes codes(const std::byte* p) { return {load(p), load(p + 32)}; }
  static void store(Codes v, std::byte* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.b);
  }
  static Codes field(Codes v, int shift, int mask) { return {field(v.a, shift, mask), field(v.b, shift, mask)}; }
  static constexpr int kOctets = 4;
  using Octets = const std::int64_t (&)[kOctets];
  static __m256i octets(Octets v) { return _mm256_setr_epi64x(v[0], v[1], v[2], v[3]); }
  static void with_signs(Octets entries, const std::byte* marks, std::byte* to) {
    const __m256i mask = bytes_of(marks);
    put(_mm256_sub_epi8(_mm256_xor_si256(octets(entries), mask), mask), to);
  }
  static void with_deltas(Octets entries, const std::byte* marks, std::byte* to) {
    const __m256i v = _mm256_xor_si256(octets(entries), _mm256_set1_epi8(-128));
    put(_mm256_sub_epi8(v, _mm256_and_si256(bytes_of(marks), _mm256_set1_epi8(2))), to);
  }
  static void put(__m256i v, std::byte* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
  // 0xff for each bit of four bytes.
  static __m256i bytes_of(const std::byte* bits) {
    std::int32_t four;
    __builtin_memcpy(&four, bits, sizeof four);
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(four), which), bit), bit);
  }
  static Codes merge(Codes v, Codes w) { return {_mm256_or_si256(v.a, w.a), _mm256_or_si256(v.b, w.b)}; }
  static Codes no_codes() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static __m128i half_of(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static Codes spread(const std::byte* p) {
    const __m256i all = _mm256_broadcastsi128_si256(half_of(p));
    const __m256i first = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
    return {_mm256_shuffle_epi8(all, first), _mm256_shuffle_epi8(all, _mm256_add_epi8(first, _mm256_set1_epi8(8)))};
  }
  static Codes add_plane(Codes codes, Codes spread, int half, int plane) {
    const __m256i bits = _mm256_set1_epi32(half == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    const __m256i weight = _mm256_set1_epi8(static_cast<char>(1 << plane));
    const auto weighed = [&](__m256i v) { return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, bits), bits), weight); };
    return merge(codes, {weighed(spread.a), weighed(spread.b)});
  }
  static Ints zeros(const std::byte* p, int shift, int mask) {
    const __m128i fields = _mm_srl_epi16(half_of(p), _mm_cvtsi32_si128(shift));
    const __m128i bytes = _mm_and_si128(fields, _mm_set1_epi8(static_cast<char>(mask)));
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
  }
  static Ints widened(const std::byte* p) {
    const __m128i bytes = half_of(p);
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
  }
  static Ints minus_product(Ints acc, Ints zeros, std::int32_t x) {
    const __m256i all = _mm256_set1_epi16(static_cast<std::int16_t>(x));  // both fit in 16 bits, where products are quicker
    return {_mm256_sub_epi32(acc.a, _mm256_madd_epi16(zeros.a, all)), _mm256_sub_epi32(acc.b, _mm256_madd_epi16(zeros.b, all))};
  }
  static Ints twice(Ints v) { return {_mm256_slli_epi32(v.a, 1), _mm256_slli_epi32(v.b, 1)}; }

  // A lane of 128 bits holds 16 rows of one table, so two tables are asked at once.
  static constexpr int kParts = 2, kChunksTogether = 2;
  static constexpr int tiles_together(int bits) { return bits <= 2 ? 2 : 1; }
  struct PlaneSums {
    __m256i low, high;
  };
  struct Tables {
    __m256i even_low, even_high, odd_low, odd_high;
  };
  static PlaneSums no_sums() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Tables tables(const std::byte* p, int part) {
    p += 32 * part;
    return {load(p), load(p + 64), load(p + 128), load(p + 192)};
  }
  static void look_up(PlaneSums& sums, const std::byte* line, int part, const Tables& t) {
    const __m256i both = load(line + 32 * part), even = field(both, 0, 15), odd = field(both, 4, 15);
    sums.low = _mm256_add_epi8(sums.low, _mm256_add_epi8(_mm256_shuffle_epi8(t.even_low, even), _mm256_shuffle_epi8(t.odd_low, odd)));
    sums.high = _mm256_add_epi8(sums.high, _mm256_add_epi8(_mm256_shuffle_epi8(t.even_high, even), _mm256_shuffle_epi8(t.odd_high, odd)));
    asm("" : "+x"(sums.low), "+x"(sums.high));  // else g++ 12 gathers all additions at the end and spills what they wait for
  }
  // A row's two lanes add up in 32 bits: 16 hold one lane's sum over all planes, at most 15 * 8 * 508.
  static __m256i widen(__m256i words) {
    return _mm256_add_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(words)),
                            _mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1)));
  }
  template <int Bits>
  static Ints gather(Ints acc, const PlaneSums (&sums)[Bits]) {
    const __m256i weights = _mm256_set1_epi16(0x1001);       // 1 low + 16 high
    __m256i first = _mm256_setzero_si256(), second = first;  // rows 0 to 7 and 8 to 15, in each lane
#pragma GCC unroll 4
    for (int i = Bits - 1; i >= 0; --i) {
      const __m256i low8 = _mm256_unpacklo_epi8(sums[i].low, sums[i].high), high8 = _mm256_unpackhi_epi8(sums[i].low, sums[i].high);
      first = _mm256_add_epi16(_mm256_add_epi16(first, first), _mm256_maddubs_epi16(low8, weights));
      second = _mm256_add_epi16(_mm256_add_epi16(second, second), _mm256_maddubs_epi16(high8, weights));
    }
    return {_mm256_add_epi32(acc.a, widen(first)), _mm256_add_epi32(acc.b, widen(second))};
  }

  // As AVX-512 has them, two lanes at a time.
  static constexpr int kRoundedChunks = 4;
  struct RoundedSums {
    __m256i first, second;
  };
  struct RoundedTables {
    __m256i even, odd;
  };
  static RoundedSums no_rounded_sums() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static RoundedTables rounded_tables(const std::byte* p, int part) { return {load(p + 32 * part), load(p + 64 + 32 * part)}; }
  static void look_up_rounded(RoundedSums& sums, const std::byte* line, int part, const RoundedTables& t, int plane) {
    const __m256i both = load(line + 32 * part), weight = _mm256_set1_epi8(static_cast<char>(1 << plane));
    const __m256i even = _mm256_shuffle_epi8(t.even, field(both, 0, 15)), odd = _mm256_shuffle_epi8(t.odd, field(both, 4, 15));
    sums.first = _mm256_add_epi16(sums.first, _mm256_maddubs_epi16(weight, _mm256_unpacklo_epi8(even, odd)));
    sums.second = _mm256_add_epi16(sums.second, _mm256_maddubs_epi16(weight, _mm256_unpackhi_epi8(even, odd)));
  }
  static __m256i both_lanes(__m256i halves) {
    return _mm256_add_epi32(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(halves)),
                            _mm256_cvtepi16_epi32(_mm256_extracti128_si256(halves, 1)));
  }
  static Ints gather_rounded(Ints acc, const RoundedSums& sums) {
    return {_mm256_add_epi32(acc.a, both_lanes(sums.first)), _mm256_add_epi32(acc.b, both_lanes(sums.second))};
  }
};

}  // namespace

constinit const KernelSet kAvx2Set = make_kernel_set<Target>("avx2");

}  // namespace vitro
