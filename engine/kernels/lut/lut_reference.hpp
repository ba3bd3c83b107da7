// What the integer stages of the look-up kernels compute, in plain C++: the oracle of every target. Everything is exact, so
// targets agree to the bit. docs/design/lut-kernels.md has the derivations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/exponential.hpp"

namespace vitro::lut {

inline constexpr std::size_t kGroup = 4;     // columns whose bits make one index (T-MAC, T-MAN: g = 4)
inline constexpr std::size_t kEntries = 16;  // of a table: all signed sums of a group

// tables[g][e] = sum over j of (bit j of e ? x : -x)[4g + j]. |entry| <= 508, and entry 15 - e is minus entry e.
// x: [columns], columns a multiple of kGroup.
std::vector<std::int16_t> precompute(const std::int8_t* x, std::size_t columns);

// Dot products of w = q - zero with x, by look-ups in `tables`, per block of `block` columns: [rows][columns / block].
// q: [rows][columns], below 2^bits; sums: of x in each block. Requires: bits 1 to 4, block a multiple of kGroup, at most 256.
std::vector<std::int32_t> linear(const std::int16_t* tables, const std::int32_t* sums, const std::uint8_t* q, std::size_t rows,
                                 std::size_t columns, unsigned bits, std::int32_t zero, std::size_t block);

// The tables of variant::kInt8Tables, entries as precompute() has them but rounded, and of each block of `block` columns the largest sum.
struct RoundedTables {
  std::vector<std::int8_t> entries;
  std::vector<std::int32_t> most;
};
RoundedTables precompute_rounded(const std::int8_t* x, std::size_t columns, std::size_t block);

// What is found in them: sum over planes of 2^i times the entries, per block [rows][columns / block]. q and bits as in linear().
std::vector<std::int32_t> linear_rounded(const RoundedTables& tables, const std::uint8_t* q, std::size_t rows, std::size_t columns,
                                         unsigned bits, std::size_t block);

// The same dot products without tables.
std::vector<std::int32_t> dots(const std::int8_t* x, const std::uint8_t* q, std::size_t rows, std::size_t columns, std::int32_t zero,
                               std::size_t block);

// fp16 table of 2^x for x <= 0, indexed by the bits of x without its sign (TTS-NPU 5.2.1): 32768 entries, rounded to
// float and then to fp16. Minus infinity gives 0, NaNs NaN.
std::vector<std::uint16_t> exp2_table();

// The same table of what a way of making 2^x gives, to the bit: the one above, or a polynomial's values. Made at the first use. Polynomials
// take a NaN for minus infinity.
std::span<const std::uint16_t> powers_of_two(Exponential by);

// FP16 values of the 16 codes of a 4-bit format whose code q stands for values[q].
std::vector<std::uint16_t> code_table(const float (&values)[kEntries]);
inline constexpr float kQ4Values[kEntries] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

}  // namespace vitro::lut
