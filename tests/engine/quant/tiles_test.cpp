#include "engine/quant/tiles.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::vector<std::byte> random_bytes(std::size_t n) {
  Rng rng(n);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.below(256));
  return bytes;
}

TEST(Tiles, q8_0_bytes_lie_where_the_layout_says) {
  constexpr std::size_t kColumns = 96, kRow = 3 * 34;
  const auto rows = random_bytes(kTileRows * kRow);
  std::vector<std::byte> tile(rows.size());
  pack_tile(Format::q8_0, kColumns, rows.data(), tile.data());
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::size_t r = 0; r < 16; ++r) {
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(tile[544 * b + 2 * r + i], rows[r * kRow + 34 * b + i]);
      for (std::size_t k = 0; k < 32; ++k) EXPECT_EQ(tile[544 * b + 32 + k / 4 * 64 + r * 4 + k % 4], rows[r * kRow + 34 * b + 2 + k]);
    }
  }
}

TEST(Tiles, q4_0_bytes_lie_where_the_layout_says) {
  constexpr std::size_t kColumns = 64, kRow = 2 * 18;
  const auto rows = random_bytes(kTileRows * kRow);
  std::vector<std::byte> tile(rows.size());
  pack_tile(Format::q4_0, kColumns, rows.data(), tile.data());
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t r = 0; r < 16; ++r) {
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(tile[288 * b + 2 * r + i], rows[r * kRow + 18 * b + i]);
      for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(tile[288 * b + 32 + i / 4 * 64 + r * 4 + i % 4], rows[r * kRow + 18 * b + 2 + i]);
    }
  }
}

TEST(Tiles, unpacking_undoes_packing) {
  for (const Format format : {Format::q4_0, Format::q8_0}) {
    const auto rows = random_bytes(kTileRows * row_bytes(format, 256));
    std::vector<std::byte> tile(rows.size()), back(rows.size());
    pack_tile(format, 256, rows.data(), tile.data());
    EXPECT_NE(tile, rows);
    unpack_tile(format, 256, tile.data(), back.data());
    EXPECT_EQ(back, rows);
  }
}

TEST(Tiles, only_block_formats_with_whole_groups_have_tiles) {
  EXPECT_TRUE(can_tile(Format::q4_0, 32));
  EXPECT_FALSE(can_tile(Format::q4_0, 24));
  EXPECT_FALSE(can_tile(Format::q4_0, 0));
  EXPECT_FALSE(can_tile(Format::f16, 16));
  EXPECT_FALSE(can_tile(Format::q6_k, 256));
}

}  // namespace
}  // namespace vitro
