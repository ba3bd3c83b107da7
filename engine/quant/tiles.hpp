// Layouts of weights in groups of kTileRows rows (strips: tile_groups.hpp). A group is a sequence over the blocks of its rows; a block of
// a group is 16 fp16 scales in row order (32 bytes), then the quants of its 16 rows. Where rows have one scale, the 16 scales stand once,
// before the first block, and behind them the rows' zero points if they have any, a byte each. Zero points of blocks stand before the
// first block, too, each in zero_field_bits(): those of a row are a string of fields, the first block's lowest, filled up to whole bytes;
// the first bytes of all rows in row order, then the second ones, and so on.
//
// Layout::tiled, for dot products: rows are interleaved so that one SIMD lane (of 32 bits) owns one row and a block needs no
// shuffles. Quants lie in units of 4 bytes, of 4 consecutive columns (a quad j has columns 4j .. 4j+3):
//   q8_0: for j in 0..7, for row r in 0..15: elements 4j .. 4j+3 of row r                      (512 bytes, 544 in all)
//   q4_0: for j in 0..3, for row r in 0..15: bytes 4j .. 4j+3 of row r's 16 nibble bytes, so that byte 4j+i holds
//         element 4j+i in its low and element 16+4j+i in its high nibble, as in the file         (256 bytes, 288 in all);
//         iq4_nl and fp4 in the same way
//   groups of 1, 2 or 4 bits: each chunk of 32 columns is `bits` lines of 16 rows x 4 bytes; quad j is field j / bits of line
//         j % bits, lowest bits first. 3 bits: two lines of the codes' low two bits, then one of their third. 8 bits: as q8_0
//   K-quants: k_tiles.hpp; w4_outliers: outlier_rows.hpp
//
// Layout::lut, for look-ups (has_look_ups(), and q4_0): each chunk of 32 columns has a line of 64 bytes for each bit plane i:
// byte 16 k + r holds bit i of columns 8k .. 8k+7 of row r, the first lowest. These are the bytes of a group format's file.
#pragma once
#include <cstddef>
#include <set>

#include "engine/tensor/format.hpp"
#include "engine/tensor/layout.hpp"

namespace vitro {

// True when rows of this format and count have that layout: rows a multiple of group_rows(layout), and a format named above.
// Layout::rows takes everything.
bool can_lay(Layout layout, Format format, std::uint64_t rows);
std::set<Format> formats_with(Layout layout);
inline bool can_tile(Format format, std::uint64_t rows) { return can_lay(Layout::tiled, format, rows); }

// A group is group_rows(layout) * row_bytes(format, columns, layout) bytes: a layout neither adds nor drops what a row says.
// `rows_in` is as many consecutive rows, each as Layout::rows has it. Requires: can_lay(layout, format, group_rows(layout)), layout is not
// rows, columns are whole blocks, no overlap; where the format has one scale per row, or per group of rows, rows that have one; zero
// points that are codes.
void pack_tile(Format format, std::size_t columns, const std::byte* rows_in, std::byte* tile_out, Layout layout = Layout::tiled);
void unpack_tile(Format format, std::size_t columns, const std::byte* tile_in, std::byte* rows_out, Layout layout = Layout::tiled);

}  // namespace vitro
