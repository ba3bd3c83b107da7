// Weights as the Hexagon worker's kernels read them: panels of rows, one row per lane of a vector.
//
// A panel of q8_0 or q4_0 is kPanelRows rows: fp16 scales [blocks][32 rows] (padded to whole vectors), then per block of 32
// columns, for step j, for each row, 4 bytes: elements 4j .. 4j+3 (q8_0, 8 steps), or the nibble bytes 4j .. 4j+3 of the
// file's block (q4_0, 4 steps).
// A bit-serial panel is kLutPanelRows rows: fp16 scales [blocks][128 rows], then per block, for each pair p of groups of four
// columns, for each bit plane i, 128 bytes. Row r's byte holds bit i of columns 8p .. 8p+3 in its low nibble, of 8p+4 ..
// 8p+7 in its high one, and stands where the look-ups' widening leaves rows in order (lut_byte()).
// Rows behind the last one are zero.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/kernels/hexagon/protocol.hpp"
#include "engine/kernels/operands.hpp"

namespace vitro::hexagon {

// True for matrices that the worker's int8 kernels take: q8_0 and q4_0, at most 32768 columns, in either Layout.
bool can_pack(const View& weights);
// As bit planes: q4_0 alone.
bool can_pack_lut(const View& weights);

Bytes panels_bytes(Format format, std::uint32_t rows, std::uint32_t columns);
Bytes lut_panels_bytes(std::uint32_t bits, std::uint32_t rows, std::uint32_t columns);

// Rows `rows` of the matrix. `out` has panels_bytes() or lut_panels_bytes(4, ...). Requires: can_pack(), can_pack_lut().
void pack_panels(const View& weights, Range rows, std::byte* out);
void pack_lut_panels(const View& weights, Range rows, std::byte* out);

// Bit-serial panels of any group format: q [rows][columns] below 2^bits, fp16 scales [rows][columns / 32].
void pack_lut_panels(std::uint32_t bits, std::uint32_t rows, std::uint32_t columns, const std::uint8_t* q, const std::uint16_t* scales,
                     std::byte* out);

// Where row `row` of a panel stands within the 128 bytes of indices.
std::uint32_t lut_byte(std::uint32_t row);

// 256 quants below 16 as a vector of nibbles, so that their look-ups come out in order.
void pack_super_group(const std::uint8_t* q, std::byte* out);
// Place of the fp16 scale of `group` (of 64) in the vector that eight super-groups share.
std::uint32_t super_group_scale(std::uint32_t group);
// Place, in halfwords, of entry `entry` of table `table` (of 4) in a vector of look-up tables.
std::uint32_t table_place(std::uint32_t table, std::uint32_t entry);

}  // namespace vitro::hexagon
