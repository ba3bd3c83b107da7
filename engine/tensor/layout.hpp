// Layouts of weight matrices.
#pragma once
#include <cstdint>
#include <string_view>

namespace vitro {

// How the elements of a weight matrix lie in memory. `rows` is the file's own order: each row in one run of blocks.
// `tiled`: groups of kTileRows rows interleaved block by block, so that one SIMD lane owns one row (docs/design/kernels.md).
// `lut`: groups of as many rows, by bit planes, so that a vector of bytes asks tables for 16 rows (docs/design/lut-kernels.md).
// `strips`: kStripRows rows in the order of a matrix unit's tiles (engine/quant/tile_groups.hpp), in files, too.
enum class Layout : std::uint8_t { rows, tiled, lut, strips };
std::string_view to_string(Layout layout);
inline constexpr std::uint32_t kTileRows = 16, kStripRows = 32;

// Rows that lie together: a matrix is cut between groups of them alone.
constexpr std::uint32_t group_rows(Layout layout) {
  return layout == Layout::rows ? 1 : layout == Layout::strips ? kStripRows : kTileRows;
}

}  // namespace vitro
