// Weight formats whose elements are codes: the group formats, of one to four bits or eight, q4_0, and the formats
// whose codes point into a table of 16 values. Kernels and packers read and write blocks through these functions alone.
//
// A block of a group format w<bits>g<group>[z][r] is, little-endian:
//   d, binary16; with a zero point z, one byte in [0, 2^bits); then the codes. Those of eight bits are bytes, q - 128 as int8, which dot
//   products take as they are. Those of fewer bits are `bits` planes of group / 8 bytes:
//   bit j of byte k of plane i is bit i of the code q of element 8k + j
// so that a byte of a plane indexes the tables of two groups of four elements (bit-serial look-up: T-MAN, section 4; T-MAC).
// Values: d (q - z) with a zero point; without one d (q - 2^(bits - 1)), and d (2q - 1) for one bit.
// With `r` all blocks of a row have the same d, and the same z if there is one, which packed layouts hold once (tiles.hpp): a scale per
// output, or per matrix. Packed layouts hold zero points of blocks in fields of zero_field_bits(), those of rows in a byte.
//
// A block of iq4_nl, fp4 and nf4 is laid out as one of q4_0: d, then 16 bytes whose low nibbles are the codes of elements 0 to
// 15 and whose high nibbles those of 16 to 31. Values: d code_table(format)[q].
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/tensor/format.hpp"

namespace vitro {

// Kernels of integers have loops for these; other group formats are rows of floats to them.
constexpr bool has_group_kernels(Format format) {
  return format.is_group() && (format.bits <= 4 || format.bits == 8) && format.block % 32 == 0;
}
// And kernels with look-ups for these, which take bits plane by plane, and a zero point for each block or none.
constexpr bool has_look_ups(Format format) {
  return has_group_kernels(format) && format.bits <= 4 && !(format.zero_point && format.row_scale);
}

// Of a packed zero point: those of codes, but powers of two, so that no field lies in two bytes.
constexpr std::uint32_t zero_field_bits(std::uint32_t bits) { return std::bit_ceil(bits); }

// The unit, 1 or 1/2, of which all values of the format's table are whole multiples of a byte's size; none where there is none.
std::optional<float> integer_step(Format format);

// What makes a value of a code: scale * (step * q - zero), or scale * code_table[q] where there is a table (step 1, zero 0).
struct BlockScale {
  float scale = 0;
  int step = 1, zero = 0;
};
// Requires: format.has_codes(). `block` is block_bytes(format) bytes of any alignment, and so are rows below.
BlockScale block_scale(Format format, const std::byte* block);

// The n codes of a row, one per byte, in the order of the elements. Requires: format.has_codes(), n a multiple of block_elements.
void unpack_codes(Format format, const std::byte* row, std::size_t n, std::uint8_t* codes);

// One block of given codes, the opposite of unpack_codes() and block_scale(): `scale` is binary16, `zero` the zero point (0
// without one). Requires: format.has_codes(), codes below 2^bits.
void pack_codes(Format format, std::uint16_t scale, std::uint8_t zero, const std::uint8_t* codes, std::byte* block);

// The same contract as dequantise_row(), to which this belongs. Requires: format.has_codes() and not q4_0.
void dequantise_codes(Format format, const std::byte* in, float* out, std::size_t n);

// The first of a row's n / group blocks that its format can not have, as in a damaged file: its zero point is no code, and kernels with
// look-up tables index by codes; or its scale or zero point is not the row's.
std::optional<std::size_t> first_bad_block(Format format, const std::byte* row, std::size_t n);

}  // namespace vitro
