// Layout::tiled: 16 rows interleaved so that one SIMD lane (of 32 bits) owns one row and a block needs no shuffles.
//
// A group is kTileRows rows. It is a sequence over the K / 32 blocks; a block of a group is 16 fp16 scales in row order
// (32 bytes), then the quants of its 16 rows in units of 4 bytes:
//   q8_0: for j in 0..7, for row r in 0..15: elements 4j .. 4j+3 of row r                      (512 bytes, 544 in all)
//   q4_0: for j in 0..3, for row r in 0..15: bytes 4j .. 4j+3 of row r's 16 nibble bytes, so that byte 4j+i holds
//         element 4j+i in its low and element 16+4j+i in its high nibble, as in the file         (256 bytes, 288 in all)
#pragma once
#include <cstddef>

#include "engine/machine/kernel_call.hpp"

namespace vitro {

// True when rows of this format and count have a tiled form: q4_0 and q8_0, rows a multiple of kTileRows.
bool can_tile(Format format, std::uint64_t rows);

// Both sides are kTileRows * row_bytes(format, columns) bytes: tiling moves bytes, it neither adds nor drops any.
// `rows_in` is kTileRows consecutive rows in file order. Requires: can_tile(format, kTileRows), columns a multiple of 32,
// no overlap.
void pack_tile(Format format, std::size_t columns, const std::byte* rows_in, std::byte* tile_out);
void unpack_tile(Format format, std::size_t columns, const std::byte* tile_in, std::byte* rows_out);

}  // namespace vitro
