// Rows of w4_outliers: INT4 with one scale per output channel, and the largest weights of the channel apart in INT8 (PowerInfer-2, section
// 7.6 and footnote 2). The paper says neither how many are apart nor how they are stored: one of a hundred, rounded up, and as follows,
// little-endian:
//   d, e: binary16, the scales of nibbles and of outliers
//   m = OutlierRow{K}.outliers() positions of 16 bits, ascending; then m values of 8 bits, signed; zeros up to a multiple of 4 bytes
//   K / 2 bytes of nibbles, in blocks of 32 as q4_0 has them
// A weight is d (q - 8), and e v where an outlier is; there q is 8, so that the value is the sum of both.
//
// Layout::tiled (tiles.hpp) has these parts of 16 rows side by side: d, e, the first position of all rows, the second ones, ..., the first
// values, ..., zeros, and the nibbles as q4_0's tiles have them. So a tile has as many bytes as its rows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/tensor/format.hpp"

namespace vitro {

// Of what is left of a row, for searches of its scale; and the nibble of zero.
inline constexpr Format kNibblesOfRow = Format::w(4, 32, 'r');
inline constexpr std::uint8_t kNothing = 8;

// The most columns that a position counts.
inline constexpr std::uint64_t kMostOutlierColumns = 65536;

// Where the parts of a row of so many columns begin, in bytes; in a tile at 16 times as much.
// Inlined always: files of several instruction sets use it, and no copy of one may be linked into another.
struct OutlierRow {
  std::uint64_t columns;

  [[gnu::always_inline]] constexpr std::size_t outliers() const { return (columns + 99) / 100; }
  [[gnu::always_inline]] constexpr std::size_t scale() const { return 0; }
  [[gnu::always_inline]] constexpr std::size_t outlier_scale() const { return 2; }
  [[gnu::always_inline]] constexpr std::size_t positions() const { return 4; }
  [[gnu::always_inline]] constexpr std::size_t values() const { return positions() + 2 * outliers(); }
  [[gnu::always_inline]] constexpr std::size_t nibbles() const { return (values() + outliers() + 3) / 4 * 4; }
  [[gnu::always_inline]] constexpr std::size_t bytes() const { return nibbles() + columns / 2; }
};

// What a row says, before it is bytes. Codes and values of n columns; nibbles at positions are 8.
struct OutlierParts {
  std::uint16_t scale = 0, outlier_scale = 0;  // binary16
  std::vector<std::uint16_t> positions;        // ascending, OutlierRow{n}.outliers()
  std::vector<std::int8_t> values;
  std::vector<std::uint8_t> codes;
};

// The columns of the largest magnitudes of a row, ascending; of equals the first ones.
std::vector<std::uint16_t> outlier_positions(const float* in, std::size_t n);

// The scale of these weights, the largest of which becomes 127 at most, and the nearest multiple of it.
std::uint16_t outlier_scale(const float* in, std::span<const std::uint16_t> positions);
std::int8_t outlier_value(std::uint16_t scale, float x);

// A row of n columns of finite values: outliers as above, nibbles as a search finds them for the rest (code_search.hpp).
// Requires: n a multiple of 32, kMostOutlierColumns at most.
void quantise_outlier_row(const float* in, std::byte* out, std::size_t n);
void write_outlier_row(const OutlierParts& row, std::byte* out);
void dequantise_outlier_row(const std::byte* in, float* out, std::size_t n);

// What makes a row one that this format can not have, as in a damaged file: a position beyond the row or not above the one before it, or a
// nibble under an outlier. Kernels index by positions.
std::optional<std::string> outlier_damage(const std::byte* row, std::size_t n);

void pack_outlier_tile(std::size_t columns, const std::byte* rows_in, std::byte* tile_out);
void unpack_outlier_tile(std::size_t columns, const std::byte* tile_in, std::byte* rows_out);

}  // namespace vitro
