// What follows the look-ups of bit-serial weights, over an instruction set as in float_stages.hpp: Finalize of a product (T-MAN 4.3), and
// two-level dequantisation to tiles of the matrix unit (T-MAN 4.1). Panels and their order of rows: panels.hpp.
//
// Beyond float_stages.hpp, I has: shift_right(halves, bits), widen_unsigned(bytes), half_of_word (shift by one, with sign), subtract_word,
// multiply_integers(halves)
// -> words of the even lanes in lo and of the odd ones in hi, either (or), even_halves(a, b): lane 2i of a and lane 2i of b side by side,
// odd_halves: lanes 2i + 1.
#pragma once
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

// Zero points of blocks, of one panel: vectors of its rows' strings, a byte each, `pitch` vectors apart; the first block at hand; a field's
// bits.
struct ZeroFields {
  const unsigned char* bytes;
  uint32_t pitch, first, bits;
};

// Those of a block, counted from the first one at hand: a byte for each row, in the order of lut_byte().
template <class I>
[[gnu::always_inline]] inline typename I::Vector zero_points(const ZeroFields& zeros, uint32_t block) {
  const uint32_t bit = (zeros.first + block) * zeros.bits;
  const auto* at = reinterpret_cast<const typename I::Vector*>(zeros.bytes + bit / 8 * zeros.pitch * kVectorBytes);
  return I::mask(I::shift_right(*at, static_cast<int>(bit % 8)), I::splat(static_cast<int32_t>(0x01010101u * ((1u << zeros.bits) - 1))));
}

// Products of a zero point of each row with a sum below 2^25, as words: of the even lanes in lo, of the odd ones in hi. Its ten lowest bits
// are multiplied apart.
template <class I>
[[gnu::always_inline]] inline typename I::Pair wide_products(const typename I::Vector& zeros, int32_t sum) {
  const auto low = I::multiply_integers(zeros, I::splat_half(sum & 1023)), high = I::multiply_integers(zeros, I::splat_half(sum >> 10));
  return {I::add_word(low.lo, I::template shift_word<10>(high.lo)), I::add_word(low.hi, I::template shift_word<10>(high.hi))};
}

// Dot products of a block with 128 rows, from weighted = sum of 2^i A_i over planes i, A_i = sum of s x with signs s
// (docs/design/lut-kernels.md): (weighted + (2^bits - 1 - 2 zero) sum) / 2, where a zero of each row's own is taken off
// apart. The bracket is even. weighted, out: four vectors. `sum` fits 16 bits, unless kWide.
template <class I, Zeros kZeros, bool kWide = false>
[[gnu::always_inline]] inline void block_dots(const typename I::Vector* weighted, const ZeroFields& zeros, uint32_t block, int32_t factor,
                                              int32_t sum, typename I::Vector* out) {
  if constexpr (kZeros == Zeros::signs) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) out[i] = weighted[i];
  } else {
    const auto correction = I::splat(factor * sum);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) out[i] = I::half_of_word(I::add_word(weighted[i], correction));
  }
  if constexpr (kZeros == Zeros::of_blocks) {
    const auto wide = I::widen_unsigned(zero_points<I>(zeros, block));
    typename I::Pair even, odd;
    if constexpr (kWide) {
      even = wide_products<I>(wide.lo, sum), odd = wide_products<I>(wide.hi, sum);
    } else {
      const auto each = I::splat_half(sum);
      even = I::multiply_integers(wide.lo, each), odd = I::multiply_integers(wide.hi, each);
    }
    out[0] = I::subtract_word(out[0], even.lo);
    out[1] = I::subtract_word(out[1], even.hi);
    out[2] = I::subtract_word(out[2], odd.lo);
    out[3] = I::subtract_word(out[3], odd.hi);
  }
}

// Vectors from one block's scales to the next one's.
template <Scales kScales>
inline constexpr uint32_t kScaleStep = kScales == Scales::of_rows ? 0 : 2;

// Words below 2^24 as float32, in two parts of twelve bits. magic: the bits of 1.5 * 2^23.
template <class I>
[[gnu::always_inline]] inline typename I::Q32 wide_floats(const typename I::Vector& words, const typename I::Vector& magic) {
  constexpr int kShift = 12, kPart = 0x45800000;  // 2^12
  const auto high = I::template shift_word_right<kShift>(words);
  const auto low = I::subtract_word(words, I::template shift_word<kShift>(high));
  return I::add(I::multiply(I::subtract(I::add_word(high, magic), magic), I::from_float(I::splat(kPart))),
                I::subtract(I::add_word(low, magic), magic));
}

// Finalize: a panel's rows of a tile, y += dot * (d_w * d_x) over blocks ascending. Dots are below 2^22, so adding them to the bits of
// 1.5 * 2^23 converts them; with kWide they are below 2^24. weighted: [blocks][4]; scales: fp16 [blocks][2], or [2] of rows; x: {float32
// scale, sum} [blocks]; y: 4 vectors of float32, which between tiles are what T-MAN's spill buffer holds.
template <class I, Zeros kZeros, Scales kScales = Scales::of_blocks, bool kWide = false>
[[gnu::always_inline]] inline void lut_finalize(const typename I::Vector* weighted, const ZeroFields& zeros,
                                                const typename I::Vector* scales, const int32_t* x, int32_t factor, uint32_t blocks,
                                                typename I::Vector* y) {
  constexpr int kOne = 0x3c00, kMagic = 0x4b400000;
  const auto magic = I::splat(kMagic);
  const auto one = I::splat_half(kOne);
  typename I::Q32 acc[4] = {I::from_float(y[0]), I::from_float(y[1]), I::from_float(y[2]), I::from_float(y[3])};
#pragma GCC unroll 8
  for (uint32_t b = 0; b < blocks; ++b, weighted += 4, scales += kScaleStep<kScales>, x += 2) {
    typename I::Vector dots[4];
    block_dots<I, kZeros, kWide>(weighted, zeros, b, factor, x[1], dots);
    const auto scale = I::from_float(I::splat(x[0]));
    const auto first = I::multiply_wide(I::interleave_halves(scales[0]), one),
               second = I::multiply_wide(I::interleave_halves(scales[1]), one);
    const typename I::Q32 weights[4] = {first.lo, first.hi, second.lo, second.hi};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      typename I::Q32 dot;
      if constexpr (kWide) {
        dot = wide_floats<I>(dots[i], magic);
      } else {
        dot = I::subtract(I::add_word(dots[i], magic), magic);
      }
      acc[i] = I::add(acc[i], I::multiply(dot, I::multiply(weights[i], scale)));
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) y[i] = I::to_float(acc[i]);
}

// The same of activations in 14 bits.
template <class I, Zeros kZeros, Scales kScales = Scales::of_blocks>
[[gnu::always_inline]] inline void lut_finalize_wide(const typename I::Vector* weighted, const ZeroFields& zeros,
                                                     const typename I::Vector* scales, const int32_t* x, int32_t factor, uint32_t blocks,
                                                     typename I::Vector* y) {
  lut_finalize<I, kZeros, kScales, true>(weighted, zeros, scales, x, factor, blocks, y);
}

// Finalize with tables of int8 (worker/kernels.hpp, float_accumulate_rounded()): y += (weighted unit + (steps sum - 2 zero sum) / 2) *
// (d_w * d_x). steps: step (2^bits - 1) - 2 zero, of which `zero` is the matrix's. x: RoundedScale [blocks] by words. 2 sum fits 16 bits.
template <class I, Zeros kZeros, Scales kScales = Scales::of_blocks>
[[gnu::always_inline]] inline void lut_finalize_rounded(const typename I::Vector* weighted, const ZeroFields& zeros,
                                                        const typename I::Vector* scales, const int32_t* x, int32_t steps, uint32_t blocks,
                                                        typename I::Vector* y) {
  constexpr int kOne = 0x3c00, kMagic = 0x4b400000, kHalf = 0x3f000000;
  const auto magic = I::splat(kMagic);
  const auto one = I::splat_half(kOne);
  const auto half = I::from_float(I::splat(kHalf));
  typename I::Q32 acc[4] = {I::from_float(y[0]), I::from_float(y[1]), I::from_float(y[2]), I::from_float(y[3])};
#pragma GCC unroll 8
  for (uint32_t b = 0; b < blocks; ++b, weighted += 4, scales += kScaleStep<kScales>, x += 4) {
    const auto whole = I::splat(steps * x[1]);
    typename I::Vector rest[4] = {whole, whole, whole, whole};
    if constexpr (kZeros == Zeros::of_blocks) {
      const auto wide = I::widen_unsigned(zero_points<I>(zeros, b));
      const auto twice = I::splat_half(2 * x[1]);
      const auto even = I::multiply_integers(wide.lo, twice), odd = I::multiply_integers(wide.hi, twice);
      rest[0] = I::subtract_word(whole, even.lo);
      rest[1] = I::subtract_word(whole, even.hi);
      rest[2] = I::subtract_word(whole, odd.lo);
      rest[3] = I::subtract_word(whole, odd.hi);
    }
    const auto scale = I::from_float(I::splat(x[0])), unit = I::from_float(I::splat(x[3]));
    const auto first = I::multiply_wide(I::interleave_halves(scales[0]), one),
               second = I::multiply_wide(I::interleave_halves(scales[1]), one);
    const typename I::Q32 weights[4] = {first.lo, first.hi, second.lo, second.hi};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto found = I::multiply(I::subtract(I::add_word(weighted[i], magic), magic), unit);
      const auto dot = I::add(found, I::multiply(I::subtract(I::add_word(rest[i], magic), magic), half));
      acc[i] = I::add(acc[i], I::multiply(dot, I::multiply(weights[i], scale)));
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) y[i] = I::to_float(acc[i]);
}

// Tables of the first level, one per plane, as look_up() wants them: entry e of table i has bit j of e at bit 4j + i, so that the planes'
// entries or'ed are the codes of four columns, a nibble each.
inline uint16_t repack_entry(uint32_t plane, uint32_t entry) {
  uint32_t codes = 0;
  for (uint32_t j = 0; j < 4; ++j) codes |= (entry >> j & 1) << (4 * j + plane);
  return static_cast<uint16_t>(codes);
}

template <class I>
[[gnu::always_inline]] inline typename I::Pair joined(const typename I::Pair& a, const typename I::Pair& b) {
  return {I::either(a.lo, b.lo), I::either(a.hi, b.hi)};
}

// Codes of four columns, or with half = 1 of the next four, of a group's planes: a table per plane.
template <class I, uint32_t kBits>
[[gnu::always_inline]] inline typename I::Pair codes_of(const typename I::Vector* planes, uint32_t half, const typename I::Vector& tables) {
  const auto bits = [&](uint32_t i) { return half == 0 ? planes[i] : I::high_nibbles(planes[i]); };
  typename I::Pair codes = I::template look_up<0>(bits(0), tables);
  if constexpr (kBits > 1) codes = joined<I>(codes, I::template look_up<1>(bits(1), tables));
  if constexpr (kBits > 2) codes = joined<I>(codes, I::template look_up<2>(bits(2), tables));
  if constexpr (kBits > 3) codes = joined<I>(codes, I::template look_up<3>(bits(3), tables));
  return codes;
}

// Four columns of 128 rows: codes to fp16, times the rows' scales, as words (column, next column) of 32 rows.
// scales, zeros: fp16 per group of 32 rows, each row's twice. out[g * stride + j]: rows 32g.., columns 2j and 2j + 1.
template <class I, Zeros kZeros>
[[gnu::always_inline]] inline void dequantise_columns(const typename I::Pair& codes, const typename I::Vector& values,
                                                      const typename I::Vector* scales, const typename I::Vector* zeros, uint32_t stride,
                                                      typename I::Vector* __restrict out) {
#pragma GCC unroll 2
  for (uint32_t side = 0; side < 2; ++side) {
    const auto both = side == 0 ? codes.lo : codes.hi;
    const auto even = I::template look_up<0>(both, values), odd = I::template look_up<0>(I::high_nibbles(both), values);
#pragma GCC unroll 4
    for (uint32_t part = 0; part < 4; ++part) {
      const auto a = part < 2 ? even.lo : even.hi, b = part < 2 ? odd.lo : odd.hi;
      const auto q = part % 2 == 0 ? I::even_halves(a, b) : I::odd_halves(a, b);
      const uint32_t group = 2 * side + part % 2;
      if constexpr (kZeros == Zeros::of_blocks) {
        out[group * stride + part / 2] = I::to_half(I::multiply(I::subtract_half(q, zeros[group]), scales[group]));
      } else {
        out[group * stride + part / 2] = I::to_half(I::multiply(q, scales[group]));
      }
    }
  }
}

// Two-level dequantisation of a panel: planes to codes by table, codes to fp16 by table, scales by lanes. Unlike T-MAN's, the second
// table has no scale in it: lanes are rows here, and each row has its own.
// planes: [blocks][kGroup / 8][kBits]; values: fp16 of the codes (zero point included unless it is a block's); scales: fp16 [blocks][2],
// or [2] of rows; out: weight tiles [4 groups of 32 rows][columns / 32], 16 vectors
// each; `between`: vectors from one group's to the next, 0 for those of `blocks` blocks.
template <class I, uint32_t kBits, uint32_t kGroup, Zeros kZeros, Scales kScales = Scales::of_blocks>
[[gnu::always_inline]] inline void lut_dequantise(const typename I::Vector* planes, const ZeroFields& zeros,
                                                  const typename I::Vector* scales, const typename I::Vector& repack,
                                                  const typename I::Vector& values, uint32_t blocks, typename I::Vector* __restrict out,
                                                  uint32_t between = 0) {
  const auto tables = repack, codes_to_halves = values;
  const uint32_t stride = between != 0 ? between : blocks * (kGroup / 2);
  for (uint32_t b = 0; b < blocks; ++b, planes += kGroup / 8 * kBits, scales += kScaleStep<kScales>, out += kGroup / 2) {
    const auto first = I::interleave_halves(scales[0]), second = I::interleave_halves(scales[1]);
    const typename I::Vector s[4] = {I::even_halves(first, first), I::odd_halves(first, first), I::even_halves(second, second),
                                     I::odd_halves(second, second)};
    typename I::Vector z[4] = {};
    if constexpr (kZeros == Zeros::of_blocks) {
      const auto wide = I::template look_up<0>(zero_points<I>(zeros, b), codes_to_halves);
      z[0] = I::even_halves(wide.lo, wide.lo);
      z[1] = I::odd_halves(wide.lo, wide.lo);
      z[2] = I::even_halves(wide.hi, wide.hi);
      z[3] = I::odd_halves(wide.hi, wide.hi);
    }
#pragma GCC unroll 16
    for (uint32_t p = 0; p < kGroup / 8; ++p) {
      const typename I::Vector* plane = planes + p * kBits;
#pragma GCC unroll 2
      for (uint32_t half = 0; half < 2; ++half) {
        const typename I::Pair codes = codes_of<I, kBits>(plane, half, tables);
        dequantise_columns<I, kZeros>(codes, codes_to_halves, s, z, stride, out + p * 4 + half * 2);
      }
    }
  }
}

}  // namespace vitro::hexagon
