#include "engine/quant/tile_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

constexpr std::size_t kColumns = 192;

std::vector<float> random_strip() {
  Rng rng(31);
  std::vector<float> values(kStripRows * kColumns);
  for (float& v : values) v = static_cast<float>(rng.normal());
  return values;
}

std::size_t strip_bytes() { return kStripRows * row_bytes(Format::q4_0_tile, kColumns, Layout::strips); }

std::vector<float> values_of(const std::vector<std::byte>& strip) {
  std::vector<float> values(kStripRows * kColumns);
  dequantise_strip_rows(strip.data(), kColumns, 0, kStripRows, values.data());
  return values;
}

// The matrix unit's own order (k the input, n the output): 32 neighbours of a tile are one block of q4_0.
TEST(TileGroups, a_group_is_32_neighbours_in_a_tile) {
  const std::vector<float> w = random_strip();
  std::vector<std::byte> strip(strip_bytes());
  quantise_strip(w.data(), kColumns, strip.data());
  EXPECT_EQ(strip.size(), kStripRows * row_bytes(Format::q4_0, kColumns));
  const std::vector<float> got = values_of(strip);
  for (std::size_t t = 0; t < kColumns; t += 32) {
    std::vector<float> tile(1024);
    for (std::size_t k = 0; k < 32; ++k) {
      for (std::size_t n = 0; n < 32; ++n) tile[64 * (k / 2) + 2 * n + k % 2] = w[n * kColumns + t + k];
    }
    std::vector<std::byte> blocks(row_bytes(Format::q4_0, tile.size()));
    quantise_row(Format::q4_0, tile.data(), blocks.data(), tile.size());
    dequantise_row(Format::q4_0, blocks.data(), tile.data(), tile.size());
    for (std::size_t k = 0; k < 32; ++k) {
      for (std::size_t n = 0; n < 32; ++n) ASSERT_EQ(got[n * kColumns + t + k], tile[64 * (k / 2) + 2 * n + k % 2]) << t + k << " " << n;
    }
  }
}

// What the header says of each byte, from the byte's side.
TEST(TileGroups, every_byte_lies_where_the_layout_says) {
  Rng rng(5);
  std::vector<std::byte> strip(strip_bytes());
  for (std::byte& b : strip) b = static_cast<std::byte>(rng.below(256));
  for (std::size_t g = 0; g < strip.size() / 18; ++g) strip[2 * g + 1] &= std::byte{0x3f};  // finite
  const std::vector<float> values = values_of(strip);
  const std::size_t scales = kColumns / kStripColumns * 128;
  for (std::size_t at = scales; at < strip.size(); ++at) {
    const std::size_t super_group = (at - scales) / 128, tile = super_group / 4, place = (at - scales) % 128;
    for (std::size_t high = 0; high < 2; ++high) {
      const std::size_t e = super_group % 4 * 256 + high * 128 + place % 2 * 64 + place / 2;  // of the tile
      const std::size_t row = e % 64 / 2, column = tile * 32 + e / 64 * 2 + e % 2, group = tile % 2 * 32 + e / 32;
      const std::size_t halfword = tile / 2 * 64 + group / 8 * 8 + group % 4 * 2 + group % 8 / 4;
      const auto half = static_cast<std::uint16_t>(std::to_integer<unsigned>(strip[2 * halfword]) |
                                                   std::to_integer<unsigned>(strip[2 * halfword + 1]) << 8);
      const int code = std::to_integer<int>(strip[at]) >> (high ? 4 : 0) & 15;
      ASSERT_EQ(values[row * kColumns + column], half_to_float(half) * static_cast<float>(code - 8)) << at;
    }
  }
}

TEST(TileGroups, rows_by_themselves_have_the_same_values_and_go_back) {
  const std::vector<float> w = random_strip();
  std::vector<std::byte> strip(strip_bytes()), back(strip.size()), rows(kStripRows * row_bytes(Format::q4_0_tile, kColumns));
  quantise_strip(w.data(), kColumns, strip.data());
  unpack_tile(Format::q4_0_tile, kColumns, strip.data(), rows.data(), Layout::strips);
  std::vector<float> values(w.size());
  dequantise_row(Format::q4_0_tile, rows.data(), values.data(), values.size());
  EXPECT_EQ(values, values_of(strip));
  pack_tile(Format::q4_0_tile, kColumns, rows.data(), back.data(), Layout::strips);
  EXPECT_EQ(back, strip);
  std::vector<float> one(kColumns);
  dequantise_strip_rows(strip.data(), kColumns, 17, 1, one.data());
  EXPECT_TRUE(std::ranges::equal(one, std::span(values).subspan(17 * kColumns, kColumns)));
}

TEST(TileGroups, a_matrix_has_them_if_it_is_whole_strips_and_pairs_of_tiles) {
  EXPECT_TRUE(can_store(Format::q4_0_tile, 32, 64));
  EXPECT_FALSE(can_store(Format::q4_0_tile, 16, 64));
  EXPECT_FALSE(can_store(Format::q4_0_tile, 32, 96));
  EXPECT_TRUE(can_store(Format::q4_0, 5, 96));
  EXPECT_FALSE(can_store(Format::q4_0, 5, 48));
  EXPECT_TRUE(can_lay(Layout::strips, Format::q4_0_tile, 64));
  EXPECT_FALSE(can_lay(Layout::strips, Format::q4_0_tile, 48));
  EXPECT_FALSE(can_lay(Layout::strips, Format::q4_0, 64));
  EXPECT_FALSE(can_lay(Layout::tiled, Format::q4_0_tile, 64));
}

}  // namespace
}  // namespace vitro
