// Weights as the Hexagon worker's kernels read them: panels of rows, one row per lane of a vector, and strips.
//
// A bit-serial panel is kLutPanelRows rows of a tile's columns: fp16 scales [blocks][128 rows], then per block, for each pair p of groups
// of four columns, for each bit plane i, 128 bytes.
// Row r's byte holds bit i of columns 8p .. 8p+3 in its low nibble, of 8p+4 .. 8p+7 in its high one, and stands where the look-ups'
// widening leaves rows in order (lut_byte()). A tile is panels one after the other; tiles of the same rows follow one another, then those
// of the next rows. So a tile is one block for the DMA (T-MAN 4.1), the same in prefill and decode. Where rows have one scale, panels have
// none: fp16 scales [panels][128 rows] stand once before the tiles of the same rows. Zero points of blocks stand there, too: a row's are a
// string of fields of zero_field_bits(), the first block's lowest, and strings lie as [byte of the string][panels][128 rows in the order of
// lut_byte()], so what a tile needs of them is one piece for the DMA.
// A strip is kTile rows of the file, which are columns of the matrix unit's weight tiles (hmx.hpp), all tiles of its depth: scales, then
// 512 bytes of nibbles per tile. Ordinary groups of 32 are a column of a tile each, so a tile has 32 scales, each twice; tile groups
// (TTS-NPU 5.1) are 2 x 16, so a pair of tiles has 64: such strips are those of files (engine/quant/tile_groups.hpp).
// Of rows in places, as a file has them, the worker makes strips (row_kernels.cpp).
// A strip of q8_0 has 1024 bytes per tile in the place of nibbles: vector v of a tile has its elements 128 v + i in byte 2 i, and those
// 64 further on in byte 2 i + 1, so that widening leaves them in order.
// Strips of w4_outliers have scales of rows, and outliers (outlier_strips.hpp).
// An fp16 strip is the same rows as the file has them, 64 columns of each after the other: a vector is 64 columns of a row, 32 vectors
// are a pair of tiles. So a DMA that takes blocks of 128 bytes makes it of a matrix in f16, and HVX makes the tiles (strip_kernels.cpp).
// Rows behind the last one are zero, and so are columns.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/kernels/hexagon/protocol.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::hexagon {

inline constexpr std::uint32_t kMostColumns = 32768;  // of the worker's scratch
inline constexpr std::uint32_t kScaleBytes = 2;

// Matrices are read in every layout that they can have (file_rows.hpp).

// True when no block of the matrix, q4_0 or of a group format, and no row of w4_outliers, has a scale that is infinite or no
// number.
bool finite_scales(const View& weights);
bool is_finite_half(const std::byte* half);

// True when the blocks of each row, of a group format or q4_0, have the same scale, and codes stand for the same integers in all of them.
bool one_scale_per_row(const View& weights);

// True for matrices of q8_0 and q4_0, at most kMostColumns columns.
bool can_pack(const View& weights);

// Bit-serial weights: what a code of `bits` bits means, how many columns share a scale, and the tile.
struct PlaneForm {
  std::uint32_t bits = 4, group = kBlockColumns, zero = 0;
  Zeros zeros = Zeros::same;
  TileShape tile{kLutPanelRows, kMostTileColumns};
  Scales scales = Scales::of_blocks;
};
// The tile that lut::search_tiling() finds for V75, no larger than four threads' parts of a matrix of `rows`, if there is a matrix.
TileShape tile_shape(std::uint32_t bits, std::uint32_t group, std::optional<std::uint32_t> rows = {});
// That of a matrix; none for formats without codes of one to four bits, and for shapes that the worker does not take.
std::optional<PlaneForm> plane_form(const View& weights);
Bytes lut_panels_bytes(const PlaneForm& form, std::uint32_t rows, std::uint32_t columns);
// Requires: plane_form(weights).
void pack_lut_panels(const View& weights, Range rows, std::byte* out);
// q: [rows][columns] below 2^bits; scales: fp16 [rows][blocks], of which rows of one scale take the first; zeros: [rows][blocks], or null
// unless form.zeros is of_blocks.
void pack_lut_panels(const PlaneForm& form, std::uint32_t rows, std::uint32_t columns, const std::uint8_t* q, const std::uint16_t* scales,
                     const std::uint8_t* zeros, std::byte* out);

// Strips of q4_0, q8_0 and w4_outliers for the matrix unit, or of tile groups, which are the bytes of the matrix as it lies;
// scales are finite, as the contract `hmx` wants them.
bool can_pack_strips(const View& weights);
Bytes strips_bytes(Scales scales, std::uint32_t rows, std::uint32_t columns);  // of 4 bits
Bytes q8_strips_bytes(std::uint32_t rows, std::uint32_t columns);
// Requires: can_pack_strips() or can_pack(); of tile groups, rows from one strip on.
void pack_strips(const View& weights, Range rows, std::byte* out);

// fp16 strips of any format: what is no f16 is rounded to it here, as the contract `hmx` rounds weights.
bool can_pack_f16_strips(const View& weights);
Bytes f16_strips_bytes(std::uint32_t rows, std::uint32_t columns);
// Requires: can_pack_f16_strips().
void pack_f16_strips(const View& weights, Range rows, std::byte* out);

// Where row `row` of a panel stands within the 128 bytes of indices.
std::uint32_t lut_byte(std::uint32_t row);

// Place, in halfwords, of entry `entry` of table `table` (of 4) in a vector of look-up tables.
std::uint32_t table_place(std::uint32_t table, std::uint32_t entry);

}  // namespace vitro::hexagon
