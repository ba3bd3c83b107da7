// Tile groups: q4_0 whose groups follow the tiles of an NPU's matrix unit (test-time scaling, section 5.1). The weights are put into the
// order in which the unit takes them, and 32 neighbours there make a group: 16 outputs x 2 inputs with one scale of binary16. Eight groups
// make a super-group, whose codes are a vector of 128 bytes (5.1.2).
//
// Layout::strips, of files and memory alike: kStripRows rows (outputs), all their columns (inputs). Of a tile of 32 x 32, element (row n,
// column k) is number e = 64 (k / 2) + 2 n + k % 2, so group e / 32. Two tiles, 64 columns, have 64 groups. A strip is
//   scales: for each pair of tiles, 128 bytes: that of group g of the pair at halfword 8 (g / 8) + 2 (g % 4) + g % 8 / 4;
//   codes: for each tile, four super-groups of 128 bytes: element e of 256 in byte 2 (e % 64) + e / 64 % 2, low nibble if e < 128.
// These are the places in which the look-ups of a vector of bytes leave values and scales in order (engine/kernels/hexagon/panels.hpp).
// Both sizes are whole vectors, and a row's share is as many bytes as a row of q4_0 has.
//
// Layout::rows has a row by itself: blocks of two columns, each the scale of its group and a byte with both codes, the first one low.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/quant/outlier_rows.hpp"
#include "engine/tensor/format.hpp"
#include "engine/tensor/layout.hpp"

namespace vitro {

inline constexpr std::size_t kGroupOutputs = 16, kGroupInputs = 2;
inline constexpr std::size_t kStripColumns = 64;  // those of two tiles: columns of a matrix are a multiple of it
inline constexpr std::size_t kSuperGroup = 256;   // weights of eight groups

// Of a super-group's 256 codes below 16, 128 bytes; and the place of the scale of group `group` (of 64) in its vector of halfwords.
void pack_super_group(const std::uint8_t* codes, std::byte* out);
std::uint32_t super_group_scale(std::uint32_t group);

// Rounds W [kStripRows, columns], row-major, each group as one block of q4_0 in the order of its elements. Requires: columns a multiple of
// kStripColumns. `out` has kStripRows * row_bytes(Format::q4_0_tile, columns, Layout::strips).
void quantise_strip(const float* w, std::size_t columns, std::byte* out);

// Between a strip and its rows as Layout::rows has them. Packing requires that the rows of a group have one scale.
void pack_strip(std::size_t columns, const std::byte* rows_in, std::byte* strip_out);
void unpack_strip(std::size_t columns, const std::byte* strip_in, std::byte* rows_out);

// Rows [first, first + count) of a strip as floats, [count][columns]: the exact products that dequantise_row() gives.
void dequantise_strip_rows(const std::byte* strip, std::size_t columns, std::size_t first, std::size_t count, float* out);

// How the matrices of a format lie in a file.
constexpr Layout stored_layout(Format format) { return format.family == Format::Family::tile ? Layout::strips : Layout::rows; }
// True when a matrix of that shape can be stored in the format: rows (of one expert) and columns whole groups, and no more columns than
// the format can count.
constexpr bool can_store(Format format, std::uint64_t rows, std::uint64_t columns) {
  if (format.has_outliers() && columns > kMostOutlierColumns) return false;
  return stored_layout(format) == Layout::rows ? columns % format.block == 0 : rows % kStripRows == 0 && columns % kStripColumns == 0;
}

}  // namespace vitro
