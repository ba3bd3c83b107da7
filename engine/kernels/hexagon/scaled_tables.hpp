// Two-level dequantisation with scale and zero point in the second table, as T-MAN has it (4.1), over an instruction set as in
// float_stages.hpp. A look-up in a table of one row and group takes codes of that row, but panels (panels.hpp) have a row in each lane. So
// codes are turned first: the first level makes a halfword of four columns' codes in each lane; words of eight such vectors go by turns;
// nibbles become bytes by turns. What comes out is a vector with 64 columns of two rows, whose look-up is a vector of the matrix unit's
// *first* operand for columns 0 .. 31 and another one for 32 .. 63. So weights are the first operand, activations the second, and results
// come out turned.
//
// Rows of a pair are 32 apart (lut_byte() leaves them in the halves of a word): pair j of side 0 is rows j and 32 + j, of side 1 64 + j
// and 96 + j. Strip s of a panel has the pairs 16 (s % 2) .. of side s / 2: scaled_row().
//
// Tables. Up to three bits, a table of 16 entries has several pairs of rows: entry (j % share) 2 E + r E + code, E = 2^bits, r the row of
// the pair; the upper bits are marked in the codes' nibbles. The two sides have tables of the same places, even and odd halves of a vector.
// Four bits fill a table with one row: two look-ups, of which each takes the bytes whose high nibble names its table.
//
// Beyond lut_stages.hpp, I has: interleave<bytes>(a, b) -> pieces of `bytes` of both by turns; even_bytes(a, b): byte 2i of a and of b side
// by side, odd_bytes: bytes 2i + 1; look_up_marked<table>(indices, tables): look_up() of the bytes whose high nibble is mark(table),
// zero for others; look_up_more<table>(pair, indices, tables): the same or'ed to a pair.
#pragma once
#include "engine/kernels/hexagon/lut_stages.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kUnitColumns = 64;     // that are turned together
inline constexpr uint32_t kPairsOfSide = 32;     // of rows

template <uint32_t kBits>
struct ScaledTables {
  static constexpr bool kAlone = kBits == 4;                             // a row fills a table
  static constexpr uint32_t kEntries = 1u << kBits;                      // of a row
  static constexpr uint32_t kShare = kAlone ? 1 : 8 / kEntries;          // pairs of rows in a table
  static constexpr uint32_t kWords = kAlone ? kEntries : 2 * kEntries;   // of a pair of rows, and of both sides if there is room
  static constexpr uint32_t kVectors = kAlone ? 2 * kWords : kWords;     // of a panel's tables for one group
  static constexpr uint32_t vector_of(uint32_t side, uint32_t pair) {
    return kAlone ? side * kEntries + pair / 2 : pair / (2 * kShare);
  }
  static constexpr uint32_t half_of(uint32_t pair) { return pair / kShare % 2; }
};

// What the codes of pair `pair`, row `row` of it, are marked with, a nibble four times; with four bits, the high nibbles that name tables.
template <uint32_t kBits>
constexpr uint32_t scaled_mark(uint32_t pair, uint32_t row) {
  using T = ScaledTables<kBits>;
  if (T::kAlone) return (pair % 2 + 2 * row) * 0x1010;
  return ((pair % T::kShare) * 2 * T::kEntries + row * T::kEntries) * 0x1111;
}
template <uint32_t kBits>
struct ScaledMarks {
  alignas(128) uint32_t words[kPairsOfSide];
  constexpr ScaledMarks() : words() {
    for (uint32_t j = 0; j < kPairsOfSide; ++j) words[j] = scaled_mark<kBits>(j, 0) | scaled_mark<kBits>(j, 1) << 16;
  }
};
template <uint32_t kBits>
inline constexpr ScaledMarks<kBits> kScaledMarks;

// The row of a panel that row `row` of strip `strip` (of four) is.
constexpr uint32_t scaled_row(uint32_t strip, uint32_t row) { return strip / 2 * 64 + strip % 2 * 16 + row / 2 + row % 2 * 32; }

// Words of `kCount` vectors by turns, in: out[m] has for kWords / kCount words, ascending over m, those of all of them side by side.
template <class I, uint32_t kCount>
[[gnu::always_inline]] inline void by_turns(const typename I::Vector* in, typename I::Vector* out) {
  if constexpr (kCount == 1) {
    out[0] = in[0];
  } else {
    typename I::Vector left[kCount / 2], right[kCount / 2];
    by_turns<I, kCount / 2>(in, left);
    by_turns<I, kCount / 2>(in + kCount / 2, right);
#pragma GCC unroll 8
    for (uint32_t m = 0; m < kCount / 2; ++m) {
      const auto both = I::template interleave<2 * kCount>(left[m], right[m]);
      out[2 * m] = both.lo;
      out[2 * m + 1] = both.hi;
    }
  }
}

// The tables of a panel's rows for one group: (code - zero) * scale, each rounded once, as lut_dequantise() rounds weights.
// scales: fp16 [128 rows]; values: fp16 of the codes (zero point included unless it is a block's), as look_up<0>() has them.
template <class I, uint32_t kBits, Zeros kZeros>
[[gnu::always_inline]] inline void scaled_tables(const ZeroFields& zeros, uint32_t block, const typename I::Vector* scales,
                                                 const typename I::Vector* values, typename I::Vector* __restrict tables) {
  using T = ScaledTables<kBits>;
  const auto* halves = reinterpret_cast<const uint16_t*>(values);
  const typename I::Vector s[2] = {I::interleave_halves(scales[0]), I::interleave_halves(scales[1])};
  typename I::Vector z[2] = {};
  if constexpr (kZeros == Zeros::of_blocks) {
    const auto wide = I::template look_up<0>(zero_points<I>(zeros, block), *values);
    z[0] = wide.lo;
    z[1] = wide.hi;
  }
  typename I::Vector entries[2][T::kEntries];
#pragma GCC unroll 2
  for (uint32_t side = 0; side < 2; ++side) {
#pragma GCC unroll 16
    for (uint32_t e = 0; e < T::kEntries; ++e) {
      const auto code = I::splat_half(halves[2 * e]);
      if constexpr (kZeros == Zeros::of_blocks) {
        entries[side][e] = I::to_half(I::multiply(I::subtract_half(code, z[side]), s[side]));
      } else {
        entries[side][e] = I::to_half(I::multiply(code, s[side]));
      }
    }
  }
  if constexpr (T::kAlone) {
    by_turns<I, T::kEntries>(entries[0], tables);
    by_turns<I, T::kEntries>(entries[1], tables + T::kEntries);
  } else {
    typename I::Vector words[2 * T::kEntries];
#pragma GCC unroll 8
    for (uint32_t e = 0; e < T::kEntries; ++e) {
      words[e] = I::even_halves(entries[0][e], entries[1][e]);
      words[T::kEntries + e] = I::odd_halves(entries[0][e], entries[1][e]);
    }
    by_turns<I, 2 * T::kEntries>(words, tables);
  }
}

// codes: 64 columns of pair `pair` of a side, in bytes.
template <class I, uint32_t kBits>
[[gnu::always_inline]] inline typename I::Pair look_up_rows(const typename I::Vector& codes, const typename I::Vector* tables,
                                                            uint32_t side, uint32_t pair) {
  using T = ScaledTables<kBits>;
  const auto table = tables[T::vector_of(side, pair)];
  const uint32_t half = T::half_of(pair);
  if constexpr (T::kAlone) {
    if (half == 0) return I::template look_up_more<1>(I::template look_up_marked<0>(codes, table), codes, table);
    return I::template look_up_more<3>(I::template look_up_marked<2>(codes, table), codes, table);
  } else {
    if (half == 0) return side == 0 ? I::template look_up<0>(codes, table) : I::template look_up<1>(codes, table);
    return side == 0 ? I::template look_up<2>(codes, table) : I::template look_up<3>(codes, table);
  }
}

// 64 columns of a panel, or 32 if not kWhole. planes: [columns / 8][kBits]; tables: of the first 32 columns' group, and of the others'.
// out: the first of strip 0's vectors for these columns, tiles of 16; strips are `stride` vectors apart.
template <class I, uint32_t kBits, bool kOneGroup, bool kWhole = true>
[[gnu::always_inline]] inline void scaled_unit(const typename I::Vector* planes, const typename I::Vector& repack,
                                               const typename I::Vector& marks, const typename I::Vector* first,
                                               const typename I::Vector* second, uint32_t stride, typename I::Vector* __restrict out) {
  constexpr uint32_t kGroups = 8;  // of four columns, of which the vectors go by turns
  typename I::Vector x[2][2 * kGroups] = {};
#pragma GCC unroll 8
  for (uint32_t p = 0; p < (kWhole ? kGroups : kGroups / 2); ++p) {
    const typename I::Vector* plane = planes + p * kBits;
#pragma GCC unroll 2
    for (uint32_t half = 0; half < 2; ++half) {
      const typename I::Pair codes = codes_of<I, kBits>(plane, half, repack);
      x[0][2 * p + half] = codes.lo;
      x[1][2 * p + half] = codes.hi;
    }
  }
  constexpr bool kAlone = ScaledTables<kBits>::kAlone;
  const auto nibbles = I::splat(0x0f0f0f0f), even_marks = I::splat(scaled_mark<4>(0, 1) << 16),
             odd_marks = I::splat(static_cast<int32_t>(scaled_mark<4>(1, 0) | scaled_mark<4>(1, 1) << 16));
#pragma GCC unroll 2
  for (uint32_t side = 0; side < 2; ++side) {
    typename I::Vector low[kGroups], high[kGroups], a[kGroups], b[kGroups];
#pragma GCC unroll 8
    for (uint32_t g = 0; g < kGroups; ++g) {
      low[g] = I::even_bytes(x[side][g], x[side][kGroups + g]);
      high[g] = I::odd_bytes(x[side][g], x[side][kGroups + g]);
      if constexpr (!kAlone) {
        low[g] = I::either(low[g], marks);
        high[g] = I::either(high[g], marks);
      }
    }
    by_turns<I, kGroups>(low, a);
    by_turns<I, kGroups>(high, b);
#pragma GCC unroll 8
    for (uint32_t m = 0; m < kGroups; ++m) {
      typename I::Vector k[4] = {a[m], I::high_nibbles(a[m]), b[m], I::high_nibbles(b[m])};
      if constexpr (kAlone) {
#pragma GCC unroll 4
        for (auto& each : k) each = I::mask(each, nibbles);
      }
      const auto left = I::template interleave<4>(k[0], k[1]), right = I::template interleave<4>(k[2], k[3]);
      const auto lower = I::template interleave<8>(left.lo, right.lo), upper = I::template interleave<8>(left.hi, right.hi);
      const typename I::Vector pairs[4] = {lower.lo, lower.hi, upper.lo, upper.hi};
#pragma GCC unroll 4
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t pair = 4 * m + i, at = (2 * side + pair / 16) * stride + pair % 16;
        const auto codes = kAlone ? I::either(pairs[i], pair % 2 == 0 ? even_marks : odd_marks) : pairs[i];
        if constexpr (kOneGroup || !kWhole) {
          const auto found = look_up_rows<I, kBits>(codes, first, side, pair);
          out[at] = found.lo;
          if constexpr (kWhole) out[at + 16] = found.hi;
        } else {
          out[at] = look_up_rows<I, kBits>(codes, first, side, pair).lo;
          out[at + 16] = look_up_rows<I, kBits>(codes, second, side, pair).hi;
        }
      }
    }
  }
}

}  // namespace vitro::hexagon
