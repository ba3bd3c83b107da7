#include "engine/quant/outlier_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/load16.hpp"

namespace vitro {
namespace {

constexpr std::size_t kUnit = 4;  // bytes of a row that stand together in a tile's nibbles

std::size_t nibble_byte(std::size_t column) { return column / kBlock * (kBlock / 2) + column % (kBlock / 2); }
int nibble_at(const std::byte* nibbles, std::size_t column) {
  return std::to_integer<int>(nibbles[nibble_byte(column)]) >> (column % kBlock < kBlock / 2 ? 0 : 4) & 15;
}

// Calls move(offset in the rows, offset in the tile, bytes) for every piece of 16 rows.
template <class Move>
void for_each_piece(OutlierRow row, Move move) {
  for (std::size_t r = 0; r < kTileRows; ++r) {
    const auto side_by_side = [&](std::size_t begin, std::size_t end, std::size_t unit) {
      for (std::size_t at = begin; at < end; at += unit) move(r * row.bytes() + at, kTileRows * at + r * unit, unit);
    };
    side_by_side(row.scale(), row.values(), 2);
    side_by_side(row.values(), row.nibbles(), 1);
    side_by_side(row.nibbles(), row.bytes(), kUnit);
  }
}

}  // namespace

std::vector<std::uint16_t> outlier_positions(const float* in, std::size_t n) {
  std::vector<std::uint16_t> columns(n);
  std::iota(columns.begin(), columns.end(), std::uint16_t{0});
  const auto end = columns.begin() + static_cast<std::ptrdiff_t>(OutlierRow{n}.outliers());
  std::ranges::partial_sort(columns, end, [&](std::uint16_t a, std::uint16_t b) {
    return std::abs(in[a]) != std::abs(in[b]) ? std::abs(in[a]) > std::abs(in[b]) : a < b;
  });
  columns.erase(end, columns.end());
  std::ranges::sort(columns);
  return columns;
}

std::uint16_t outlier_scale(const float* in, std::span<const std::uint16_t> positions) {
  float largest = 0;
  for (const std::uint16_t k : positions) largest = std::max(largest, std::abs(in[k]));
  return float_to_half(largest / 127);
}

std::int8_t outlier_value(std::uint16_t scale, float x) {
  const float unit = half_to_float(scale);
  return unit == 0 ? std::int8_t{0} : static_cast<std::int8_t>(std::clamp(std::round(x / unit), -127.0f, 127.0f));
}

void quantise_outlier_row(const float* in, std::byte* out, std::size_t n) {
  OutlierParts row;
  row.positions = outlier_positions(in, n);
  row.outlier_scale = outlier_scale(in, row.positions);
  std::vector<float> rest(in, in + n);
  for (const std::uint16_t k : row.positions) {
    row.values.push_back(outlier_value(row.outlier_scale, in[k]));
    rest[k] = 0;
  }
  std::vector<std::byte> blocks(row_bytes(kNibblesOfRow, n));
  quantise_row(kNibblesOfRow, rest.data(), blocks.data(), n);
  row.scale = load16(blocks.data());
  row.codes.resize(n);
  unpack_codes(kNibblesOfRow, blocks.data(), n, row.codes.data());
  write_outlier_row(row, out);
}

void write_outlier_row(const OutlierParts& row, std::byte* out) {
  const OutlierRow at{row.codes.size()};
  VITRO_CHECK(row.positions.size() == at.outliers() && row.values.size() == at.outliers(), "a row has a fixed number of outliers");
  std::fill_n(out, at.bytes(), std::byte{0});
  store16(out + at.scale(), row.scale);
  store16(out + at.outlier_scale(), row.outlier_scale);
  for (std::size_t j = 0; j < at.outliers(); ++j) {
    VITRO_CHECK(row.codes[row.positions[j]] == kNothing, "a nibble under an outlier");
    store16(out + at.positions() + 2 * j, row.positions[j]);
    out[at.values() + j] = static_cast<std::byte>(row.values[j]);
  }
  for (std::size_t k = 0; k < row.codes.size(); ++k) {
    out[at.nibbles() + nibble_byte(k)] |= static_cast<std::byte>(row.codes[k] << (k % kBlock < kBlock / 2 ? 0 : 4));
  }
}

void dequantise_outlier_row(const std::byte* in, float* out, std::size_t n) {
  const OutlierRow at{n};
  const float scale = half_to_float(load16(in + at.scale())), apart = half_to_float(load16(in + at.outlier_scale()));
  for (std::size_t k = 0; k < n; ++k) out[k] = scale * static_cast<float>(nibble_at(in + at.nibbles(), k) - kNothing);
  for (std::size_t j = 0; j < at.outliers(); ++j) {
    out[load16(in + at.positions() + 2 * j)] = apart * static_cast<float>(static_cast<std::int8_t>(in[at.values() + j]));
  }
}

std::optional<std::string> outlier_damage(const std::byte* row, std::size_t n) {
  const OutlierRow at{n};
  std::optional<std::size_t> before;
  for (std::size_t j = 0; j < at.outliers(); ++j) {
    const std::size_t k = load16(row + at.positions() + 2 * j);
    const auto outlier = [&] { return "outlier " + std::to_string(j) + " is at column " + std::to_string(k); };
    if (k >= n) return outlier() + " (expected one below " + std::to_string(n) + ")";
    if (before && k <= *before) return outlier() + " (expected one above " + std::to_string(*before) + ", that of the outlier before it)";
    if (const int nibble = nibble_at(row + at.nibbles(), k); nibble != kNothing) {
      return outlier() + ", where the nibble is " + std::to_string(nibble) + " (expected 8, the nibble of zero)";
    }
    before = k;
  }
  return std::nullopt;
}

void pack_outlier_tile(std::size_t columns, const std::byte* rows_in, std::byte* tile_out) {
  for_each_piece({columns}, [&](std::size_t row, std::size_t tile, std::size_t n) { std::memcpy(tile_out + tile, rows_in + row, n); });
}

void unpack_outlier_tile(std::size_t columns, const std::byte* tile_in, std::byte* rows_out) {
  for_each_piece({columns}, [&](std::size_t row, std::size_t tile, std::size_t n) { std::memcpy(rows_out + row, tile_in + tile, n); });
}

}  // namespace vitro
