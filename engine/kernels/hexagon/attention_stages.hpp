// FlashAttention on HVX and HMX (TTS-NPU 5.2.1, Algorithm 1), exp by table or by a polynomial, over an instruction set `I` as in
// float_stages.hpp.
// engine/kernels/fp16_attention/flash_attention.hpp is its oracle; docs/design/lut-kernels.md has the error bounds.
//
// Scores are fp16 tiles as HMX stores them (hmx.hpp), so a vector holds two query rows: row 2i in its even halves, row 2i + 1 in its
// odd ones, 32 keys each. What belongs to a row (maximum, sum, rescaling) is a vector, too, with the row's value in all lanes of its
// parity: rotations by whole words reduce both rows at once and leave the result where it is needed.
//
// Beyond float_stages.hpp, I has: exclusive_or, sign_halves (all bits of a lane are its sign), max_half (signed), min_bits (unsigned
// halves), shift_half<n>, shift_word<n> (to the left), rotate(Vector, bytes), rotate(Q32, bytes), gather(out, table, byte offsets),
// where_not_above(bits, limit, v): v where bits <= limit as unsigned halves, else 0; add_half_float(hf, hf) -> Q16, add(Q16, hf),
// subtract(Q32, Q32), narrow(PairQ32): halves, lo in the even lanes; low_halves(a, b), high_halves(a, b): of a's words, then of b's.
#pragma once
#include "engine/kernels/hexagon/hmx.hpp"

namespace vitro::hexagon {

inline constexpr uint16_t kLowestHalf = 0xfbff;           // -65504, in place of minus infinity, which qfloat may not have

// Bits of halves so that signed integers compare as their values do; its own inverse.
template <class I>
[[gnu::always_inline]] inline typename I::Vector ordered(const typename I::Vector& x) {
  return I::exclusive_or(x, I::mask(I::sign_halves(x), I::splat_half(0x7fff)));
}

// Line 3 of Algorithm 1 for a pair of rows: the maximum of `before` and of vectors s[0], s[stride], ...
template <class I>
[[gnu::always_inline]] inline typename I::Vector row_max(const typename I::Vector* s, uint32_t stride, uint32_t count,
                                                         const typename I::Vector& before) {
  auto top = ordered<I>(before);
  for (uint32_t i = 0; i < count; ++i) top = I::max_half(top, ordered<I>(s[i * stride]));
#pragma GCC unroll 5
  for (int bytes = 64; bytes >= 4; bytes /= 2) top = I::max_half(top, I::rotate(top, bytes));
  return ordered<I>(top);
}

// How P is made from x = S - m <= 0. By table: bits without the sign, times two, are the offset of 2^x.
struct ExpByTable {
  template <class I>
  [[gnu::always_inline]] static inline void exp(const typename I::Vector& x, const uint16_t* table, typename I::Vector* out) {
    I::gather(out, table, I::template shift_half<1>(x));
  }
};

// 2^x = 2^k 2^f with the Taylor polynomial of 2^f, in fp16: degree 4 leaves 4e-5 for |f| <= 1/2. Below 2^-14 it gives 0.
struct ExpByHalf {
  template <class I>
  [[gnu::always_inline]] static inline void exp(const typename I::Vector& x, const uint16_t*, typename I::Vector* out) {
    constexpr int kMinus14 = 0xcb00, kMagic = 0x6600;                   // 1536 + k has k in its last bits
    constexpr int kTerms[] = {0x20ed, 0x2b1b, 0x33b0, 0x398c, 0x3c00};  // (ln 2)^n / n!, n = 4 .. 0
    const auto magic = I::splat_half(kMagic);
    const auto clamped = I::min_bits(x, I::splat_half(kMinus14));
    const auto whole = I::to_half(I::add_half_float(clamped, magic));
    const auto f = I::to_half(I::subtract_half(clamped, I::to_half(I::subtract_half(whole, magic))));
    auto p = I::add(I::multiply(f, I::splat_half(kTerms[0])), I::splat_half(kTerms[1]));
#pragma GCC unroll 3
    for (int n = 2; n < 5; ++n) p = I::add(I::multiply(p, f), I::splat_half(kTerms[n]));
    const auto power = I::add_half(I::to_half(p), I::template shift_half<10>(whole));
    *out = I::where_not_above(x, I::splat_half(kMinus14), power);
  }
};

// The same in float32, degree 6, for 32 keys of a row at a time.
struct ExpByFloat {
  template <class I>
  [[gnu::always_inline]] static inline typename I::Q32 power(const typename I::Q32& x) {
    constexpr int kMagic = 0x4b400000;  // 1.5 * 2^23
    // (ln 2)^n / n!, n = 6 .. 0
    constexpr int kTerms[] = {0x39218489, 0x3aaec3ff, 0x3c1d955b, 0x3d635847, 0x3e75fdf0, 0x3f317218, 0x3f800000};
    const auto magic = I::splat(kMagic);
    const auto whole = I::to_float(I::add(x, I::from_float(magic)));
    const auto f = I::subtract(x, I::subtract(whole, magic));
    auto p = I::from_float(I::splat(kTerms[0]));
#pragma GCC unroll 6
    for (int n = 1; n < 7; ++n) p = I::add(I::multiply(p, f), I::from_float(I::splat(kTerms[n])));
    return I::from_float(I::add_word(I::to_float(p), I::template shift_word<23>(whole)));
  }
  template <class I>
  [[gnu::always_inline]] static inline void exp(const typename I::Vector& x, const uint16_t*, typename I::Vector* out) {
    constexpr int kMinus25 = 0xce40, kOne = 0x3c00;
    const auto wide = I::multiply_wide(I::min_bits(x, I::splat_half(kMinus25)), I::splat_half(kOne));
    *out = I::narrow({power<I>(wide.lo), power<I>(wide.hi)});
  }
};

// Line 4: p = 2^(s - top).
template <class I, class Exp>
[[gnu::always_inline]] inline void row_exp(const typename I::Vector* s, uint32_t stride, uint32_t count, const typename I::Vector& top,
                                           const uint16_t* table, typename I::Vector* p) {
  for (uint32_t i = 0; i < count; ++i) Exp::template exp<I>(I::to_half(I::subtract_half(s[i * stride], top)), table, p + i * stride);
}

// Sums of both rows in float32: lane by lane over the vectors, then lanes 16 apart, 8, 4, 2, 1.
template <class I>
[[gnu::always_inline]] inline typename I::PairQ32 row_sum(const typename I::Vector* p, uint32_t stride, uint32_t count) {
  constexpr int kOne = 0x3c00;
  const auto one = I::splat_half(kOne);
  typename I::PairQ32 sum = {I::from_float(I::splat(0)), I::from_float(I::splat(0))};
  for (uint32_t i = 0; i < count; ++i) {
    const auto wide = I::multiply_wide(p[i * stride], one);
    sum = {I::add(sum.lo, wide.lo), I::add(sum.hi, wide.hi)};
  }
#pragma GCC unroll 5
  for (int bytes = 64; bytes >= 4; bytes /= 2) {
    sum = {I::add(sum.lo, I::rotate(sum.lo, bytes)), I::add(sum.hi, I::rotate(sum.hi, bytes))};
  }
  return sum;
}

// Line 5: sum = kept * sum + total.
template <class I>
[[gnu::always_inline]] inline typename I::Vector new_sum(const typename I::Vector& kept, const typename I::Vector& sum,
                                                         const typename I::PairQ32& total) {
  const auto scaled = I::multiply_wide(kept, sum);
  return I::narrow({I::add(scaled.lo, total.lo), I::add(scaled.hi, total.hi)});
}

// The last line: o / sum, as a product with float32 reciprocals of the two rows' sums.
template <class I>
[[gnu::always_inline]] inline typename I::Vector divided(const typename I::Vector& o, int32_t even, int32_t odd) {
  constexpr int kOne = 0x3c00;
  const auto wide = I::multiply_wide(o, I::splat_half(kOne));
  return I::narrow({I::multiply(wide.lo, I::from_float(I::splat(even))), I::multiply(wide.hi, I::from_float(I::splat(odd)))});
}

// 1 / x rounded to float32, for a finite half that is not negative: Newton's steps in fused multiply-adds, which give the same bits
// everywhere. The first guess is 12 % off, and each step squares that.
inline float reciprocal(uint16_t x) {
  const float value = __builtin_bit_cast(float, uint32_t{x} << 13) * 0x1p112f;
  float guess = __builtin_bit_cast(float, 0x7ef311c7u - __builtin_bit_cast(uint32_t, value));
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) guess = __builtin_fmaf(guess, __builtin_fmaf(-value, guess, 1.0f), guess);
  return x == 0 ? __builtin_inff() : guess;
}

// Lines 3 to 5 of Algorithm 1 for a pair of rows and a block of keys, `tiles` vectors of scores kTilePairs apart: P stands behind the
// diagonal of what is kept, so that line 6 is one product. `diagonal`: kDiagonal of this pair.
template <class I, class Exp>
[[gnu::always_inline]] inline void softmax_pair(const typename I::Vector* s, uint32_t tiles, const uint16_t* table,
                                                const typename I::Vector& diagonal, typename I::Vector& top, typename I::Vector& sum,
                                                typename I::Vector* kept, typename I::Vector* p) {
  constexpr int kOne = 0x3c00;
  const typename I::Vector before = top;
  auto highest = ordered<I>(before);
#pragma GCC unroll 4
  for (uint32_t t = 0; t < tiles; ++t) highest = I::max_half(highest, ordered<I>(s[t * kTilePairs]));
#pragma GCC unroll 5
  for (int bytes = 64; bytes >= 4; bytes /= 2) highest = I::max_half(highest, I::rotate(highest, bytes));
  const typename I::Vector now = ordered<I>(highest);
  Exp::template exp<I>(I::to_half(I::subtract_half(before, now)), table, kept);
#pragma GCC unroll 4
  for (uint32_t t = 0; t < tiles; ++t) {
    Exp::template exp<I>(I::to_half(I::subtract_half(s[t * kTilePairs], now)), table, p + (1 + t) * kTilePairs);
  }
  const auto one = I::splat_half(kOne);
  typename I::PairQ32 total = {I::from_float(I::splat(0)), I::from_float(I::splat(0))};
#pragma GCC unroll 4
  for (uint32_t t = 0; t < tiles; ++t) {
    const auto wide = I::multiply_wide(p[(1 + t) * kTilePairs], one);
    total = {I::add(total.lo, wide.lo), I::add(total.hi, wide.hi)};
  }
#pragma GCC unroll 5
  for (int bytes = 64; bytes >= 4; bytes /= 2) {
    total = {I::add(total.lo, I::rotate(total.lo, bytes)), I::add(total.hi, I::rotate(total.hi, bytes))};
  }
  top = now;
  sum = new_sum<I>(*kept, sum, total);
  p[0] = I::mask(*kept, diagonal);
}

// Of a tile's vector of scores, which has two rows' 32 keys: those that the rows see stay, of `seen` keys of the tile: a halfword each.
template <class I>
[[gnu::always_inline]] inline typename I::Vector seen_scores(const typename I::Vector& s, const typename I::Vector& places, int32_t seen) {
  const auto lowest = I::splat_half(kLowestHalf);
  return I::exclusive_or(I::where_not_above(places, I::splat(seen), I::exclusive_or(s, lowest)), lowest);
}

// The two rows of 64 columns of the result: o of two tiles, divided by the rows' sums.
template <class I>
[[gnu::always_inline]] inline typename I::Pair result_rows(const typename I::Vector& first, const typename I::Vector& second, int32_t even,
                                                           int32_t odd) {
  const auto a = divided<I>(first, even, odd), b = divided<I>(second, even, odd);
  return {I::low_halves(a, b), I::high_halves(a, b)};
}

// Constants of these: of pair i of a tile's rows, the two words' halves that are its diagonal; and the places of keys in a tile, from 1.
struct AttentionConstants {
  alignas(128) uint32_t diagonal[kTilePairs][kTile] = {};
  alignas(128) uint32_t places[kTile] = {};
  constexpr AttentionConstants() {
    for (uint32_t i = 0; i < kTilePairs; ++i) {
      diagonal[i][2 * i] = 0xffff;
      diagonal[i][2 * i + 1] = 0xffff0000;
    }
    for (uint32_t w = 0; w < kTile; ++w) places[w] = (w + 1) | (w + 1) << 16;
  }
};
inline constexpr AttentionConstants kAttention;

}  // namespace vitro::hexagon
