#include "engine/quant/outlier_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

std::vector<float> normal(std::size_t n, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(rng.normal());
  return values;
}

std::vector<std::byte> quantised(const std::vector<float>& values) {
  std::vector<std::byte> row(row_bytes(Format::w4_outliers, values.size()));
  quantise_row(Format::w4_outliers, values.data(), row.data(), values.size());
  return row;
}

std::vector<float> values_of(const std::vector<std::byte>& row, std::size_t n) {
  std::vector<float> values(n);
  dequantise_row(Format::w4_outliers, row.data(), values.data(), n);
  return values;
}

unsigned word(const std::vector<std::byte>& row, std::size_t at) {
  return std::to_integer<unsigned>(row[at]) | std::to_integer<unsigned>(row[at + 1]) << 8;
}

TEST(OutlierRows, one_weight_of_a_hundred_is_apart_and_the_bytes_say_so) {
  const std::pair<std::size_t, std::size_t> kRows[] = {{32, 1}, {96, 1}, {128, 2}, {256, 3}, {768, 8}, {4096, 41}, {65536, 656}};
  for (const auto& [columns, outliers] : kRows) {
    const OutlierRow row{columns};
    EXPECT_EQ(row.outliers(), outliers);
    const Bytes head = round_up(4 + 3 * outliers, 4);
    EXPECT_EQ(row_bytes(Format::w4_outliers, columns), head + columns / 2);
    EXPECT_EQ(row_bytes(Format::w4_outliers, columns, Layout::tiled), head + columns / 2);
  }
}

// From the header's text alone.
TEST(OutlierRows, every_byte_means_what_the_header_says) {
  const std::size_t n = 256;
  const std::vector<float> w = normal(n, 3);
  const std::vector<std::byte> row = quantised(w);
  const std::vector<float> values = values_of(row, n);
  const float d = half_to_float(static_cast<std::uint16_t>(word(row, 0))), e = half_to_float(static_cast<std::uint16_t>(word(row, 2)));
  std::vector<std::size_t> apart;
  for (std::size_t j = 0; j < 3; ++j) {
    apart.push_back(word(row, 4 + 2 * j));
    EXPECT_EQ(values[apart[j]], e * static_cast<float>(static_cast<std::int8_t>(row[10 + j])));
  }
  EXPECT_TRUE(std::ranges::is_sorted(apart));
  for (std::size_t at = 13; at < 16; ++at) EXPECT_EQ(row[at], std::byte{0});
  for (std::size_t k = 0; k < n; ++k) {
    const int both = std::to_integer<int>(row[16 + k / 32 * 16 + k % 16]), q = k % 32 < 16 ? both & 15 : both >> 4;
    if (std::ranges::find(apart, k) != apart.end()) {
      EXPECT_EQ(q, 8) << k;
    } else {
      EXPECT_EQ(values[k], d * static_cast<float>(q - 8)) << k;
    }
  }
}

TEST(OutlierRows, the_largest_are_apart_with_an_error_of_half_a_step_and_the_rest_as_a_row_without_them) {
  for (const std::size_t n : {32u, 160u, 768u}) {
    const std::vector<float> w = normal(n, n);
    const std::vector<float> values = values_of(quantised(w), n);
    std::vector<float> magnitudes;
    for (const float x : w) magnitudes.push_back(std::abs(x));
    std::ranges::sort(magnitudes, std::greater());
    const std::size_t m = OutlierRow{n}.outliers();
    std::vector<float> rest = w;
    for (std::size_t k = 0; k < n; ++k) {
      if (std::abs(w[k]) < magnitudes[m - 1]) continue;
      rest[k] = 0;
      EXPECT_LE(std::abs(values[k] - w[k]), magnitudes[0] * (0.5f / 127 + 0x1p-11f)) << k;  // and the scale's own rounding
    }
    std::vector<std::byte> blocks(row_bytes(kNibblesOfRow, n));
    std::vector<float> alone(n);
    quantise_row(kNibblesOfRow, rest.data(), blocks.data(), n);
    dequantise_row(kNibblesOfRow, blocks.data(), alone.data(), n);
    for (std::size_t k = 0; k < n; ++k) {
      if (rest[k] != 0) {
        ASSERT_EQ(values[k], alone[k]) << k;
      }
    }
  }
}

// One weight that is a hundred times the others costs them nothing, where one scale for all leaves zeros.
TEST(OutlierRows, a_large_weight_does_not_cost_the_others_their_precision) {
  std::vector<float> w = normal(128, 9);
  w[77] = 400;
  const auto error = [&](const std::vector<float>& made) {
    double sum = 0;
    for (std::size_t k = 0; k < w.size(); ++k) sum += k == 77 ? 0 : std::pow(double{made[k]} - w[k], 2);
    return std::sqrt(sum);
  };
  std::vector<std::byte> blocks(row_bytes(kNibblesOfRow, w.size()));
  std::vector<float> alone(w.size());
  quantise_row(kNibblesOfRow, w.data(), blocks.data(), w.size());
  dequantise_row(kNibblesOfRow, blocks.data(), alone.data(), w.size());
  const std::vector<float> apart = values_of(quantised(w), w.size());
  EXPECT_LT(error(apart), 0.2 * error(alone));
  EXPECT_NEAR(apart[77], 400, 400 * 0x1p-10);
}

TEST(OutlierRows, rows_of_zeros_of_equals_and_of_the_smallest_numbers_come_back) {
  for (const float x : {0.0f, 1.0f, -0.25f}) {
    const std::vector<float> w(160, x), values = values_of(quantised(w), 160);
    EXPECT_EQ(outlier_positions(w.data(), w.size()), (std::vector<std::uint16_t>{0, 1}));  // of equals the first
    for (const float v : values) EXPECT_NEAR(v, x, std::abs(x) * 0x1p-10);
  }
  const std::vector<float> tiny(64, 1e-30f);  // no binary16 is that small
  for (const float v : values_of(quantised(tiny), 64)) EXPECT_EQ(v, 0);
}

TEST(OutlierRows, damage_is_named) {
  const std::size_t n = 256;
  const OutlierRow at{n};
  std::vector<std::byte> good = quantised(normal(n, 5));
  EXPECT_EQ(outlier_damage(good.data(), n), std::nullopt);
  const unsigned first = word(good, at.positions()), second = word(good, at.positions() + 2);
  const auto with = [&](std::size_t j, unsigned position) {
    std::vector<std::byte> row = good;
    row[at.positions() + 2 * j] = static_cast<std::byte>(position & 255);
    row[at.positions() + 2 * j + 1] = static_cast<std::byte>(position >> 8);
    return outlier_damage(row.data(), n).value_or("");
  };
  EXPECT_EQ(with(2, 256), "outlier 2 is at column 256 (expected one below 256)");
  EXPECT_EQ(with(0, 65535), "outlier 0 is at column 65535 (expected one below 256)");
  const std::string again = "outlier 1 is at column " + std::to_string(first) + " (expected one above " + std::to_string(first) +
                            ", that of the outlier before it)";
  EXPECT_EQ(with(1, first), again);
  std::vector<std::byte> row = good;
  row[at.nibbles() + second / 32 * 16 + second % 16] ^= second % 32 < 16 ? std::byte{1} : std::byte{16};
  EXPECT_EQ(outlier_damage(row.data(), n).value_or(""),
            "outlier 1 is at column " + std::to_string(second) + ", where the nibble is 9 (expected 8, the nibble of zero)");
}

TEST(OutlierRows, a_tile_has_the_parts_of_its_rows_side_by_side_and_gives_them_back) {
  for (const std::size_t n : {32u, 160u, 256u}) {
    const OutlierRow at{n};
    std::vector<std::byte> rows, tile(kTileRows * at.bytes()), back(tile.size());
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const std::vector<std::byte> row = quantised(normal(n, r));
      rows.insert(rows.end(), row.begin(), row.end());
    }
    pack_tile(Format::w4_outliers, n, rows.data(), tile.data());
    unpack_tile(Format::w4_outliers, n, tile.data(), back.data());
    EXPECT_EQ(back, rows);
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const std::byte* row = &rows[r * at.bytes()];
      const auto same = [&](std::size_t in_tile, std::size_t in_row, std::size_t bytes) {
        EXPECT_EQ(std::memcmp(&tile[in_tile], row + in_row, bytes), 0) << n << " row " << r << " byte " << in_row;
      };
      same(2 * r, at.scale(), 2);
      same(32 + 2 * r, at.outlier_scale(), 2);
      for (std::size_t j = 0; j < at.outliers(); ++j) {
        same(64 + 32 * j + 2 * r, at.positions() + 2 * j, 2);
        same(16 * at.values() + 16 * j + r, at.values() + j, 1);
      }
      for (std::size_t unit = 0; unit < n / 8; ++unit) same(16 * at.nibbles() + 64 * unit + 4 * r, at.nibbles() + 4 * unit, 4);
    }
  }
}

TEST(OutlierRows, a_matrix_has_them_up_to_as_many_columns_as_a_position_counts) {
  EXPECT_TRUE(can_store(Format::w4_outliers, 5, 65536));
  EXPECT_FALSE(can_store(Format::w4_outliers, 5, 65536 + 32));
  EXPECT_FALSE(can_store(Format::w4_outliers, 5, 48));
  EXPECT_TRUE(can_lay(Layout::tiled, Format::w4_outliers, 32));
  EXPECT_FALSE(can_lay(Layout::tiled, Format::w4_outliers, 24));
  EXPECT_FALSE(can_lay(Layout::lut, Format::w4_outliers, 32));
}

}  // namespace
}  // namespace vitro
