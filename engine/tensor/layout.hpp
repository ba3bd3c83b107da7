// Layouts of weight matrices.
#pragma once
#include <cstdint>
#include <string_view>

namespace vitro {

// How the elements of a weight matrix lie in memory. `rows` is the file's own order: each row in one run of blocks.
// `tiled`: groups of kTileRows rows interleaved block by block, so that one SIMD lane owns one row (docs/design/kernels.md).
// `lut`: groups of as many rows, by bit planes, so that a vector of bytes asks tables for 16 rows (docs/design/lut-kernels.md).
enum class Layout : std::uint8_t { rows, tiled, lut };
std::string_view to_string(Layout layout);
inline constexpr std::uint32_t kTileRows = 16;

}  // namespace vitro
