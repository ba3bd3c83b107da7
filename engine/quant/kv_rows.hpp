// Keys and values of one head and position, as a KV pool keeps them. Where a pool's format is_for_kv(), they follow MNN-LLM (section 4.2):
// keys in int8 or int4 with scales of their own, since scores are sums over the elements of a key; values in fp8, since what comes out is a
// sum over positions, and a new one must not change what stands there. fp8 is e4m3: values of a trained model are far below its 448, where
// it errs by 1/16 at most; or e5m2, which reaches 57344 and errs by 1/8.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "engine/quant/blocks.hpp"
#include "engine/tensor/format.hpp"

namespace vitro {

// What pools can be in. The place is the number in files of saved sequences: new ones come last.
inline constexpr std::array kKvFormats{Format::f32,      Format::f16,       Format::int8_fp8,
                                       Format::int4_fp8, Format::int8_e5m2, Format::int4_e5m2};
constexpr bool holds_kv(Format format) {
  for (const Format known : kKvFormats) {
    if (known == format) return true;
  }
  return false;
}
std::vector<std::string> kv_format_names();
std::string kv_format_list();  // for messages: "f32, f16, ... or int4_e5m2"

// Elements of a key in int4 that share a scale and a zero. A row is codes of whole groups, 16 bytes each: byte i has element i in its low
// bits, element i + 16 in its high ones. Behind them stand scale and zero of each group, binary16.
inline constexpr std::uint32_t kKeyGroup = 32;
inline constexpr Bytes kKeyGroupCodes = 16, kKeyGroupScales = 4;
// A row of a key in int8 ends with its scale and its minimum, float32.
inline constexpr Bytes kKeyScales = 8;

constexpr Bytes key_groups(std::uint32_t dim) { return (Bytes{dim} + kKeyGroup - 1) / kKeyGroup; }

// Bytes of one row; which: 0 keys, 1 values. Requires: holds_kv(format).
constexpr Bytes kv_row_bytes(Format format, std::uint32_t which, std::uint32_t dim) {
  if (!format.is_for_kv() || which == 1) return dim * format.block_bytes();
  return format.bits == 8 ? dim + kKeyScales : key_groups(dim) * (kKeyGroupCodes + kKeyGroupScales);
}
// Of a key and its value.
constexpr Bytes kv_pair_bytes(Format format, std::uint32_t dim) { return kv_row_bytes(format, 0, dim) + kv_row_bytes(format, 1, dim); }

// Requires: holds_kv(format), dim > 0. A row is written as its numbers alone say. Equation 1 of the paper, with codes from -128 or -8:
// int8: code = round((x - min) / scale) - 128, scale = (max - min) / 255; it stands for (code + 128) * scale + min.
// int4: code = round((x - zero) / scale), scale = (max - min) / 15 and zero = min + 8 * scale of the group, both rounded to binary16 first
// and no more than it reaches; it stands for code * scale + zero, rounded once.
// A NaN is neither least nor largest, and its code is the least; keys of NaNs alone are zeros. A minimum or maximum of -0 counts as +0.
// Values that fp8 does not reach become its largest.
void write_kv_row(Format format, std::uint32_t which, const float* x, std::uint32_t dim, std::byte* out);
void read_kv_row(Format format, std::uint32_t which, const std::byte* in, std::uint32_t dim, float* out);

}  // namespace vitro
