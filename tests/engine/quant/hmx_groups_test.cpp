#include "engine/quant/hmx_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::vector<float> random_matrix(std::size_t n) {
  Rng rng(31);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(rng.normal());
  return values;
}

// The matrix unit's own order (k the input, n the output): 32 neighbours of a tile are one block of q4_0.
TEST(HmxGroups, a_group_is_32_neighbours_in_a_tile) {
  constexpr std::size_t kRows = 64, kColumns = 96;
  const std::vector<float> w = random_matrix(kRows * kColumns);
  std::vector<float> got = w;
  round_to_hmx_groups(got, kColumns);
  for (std::size_t tile_n = 0; tile_n < kRows; tile_n += 32) {
    for (std::size_t tile_k = 0; tile_k < kColumns; tile_k += 32) {
      const auto at = [&](std::size_t k, std::size_t n) { return (tile_n + n) * kColumns + tile_k + k; };
      std::vector<float> tile(1024);
      for (std::size_t k = 0; k < 32; ++k) {
        for (std::size_t n = 0; n < 32; ++n) tile[64 * (k / 2) + 2 * n + k % 2] = w[at(k, n)];
      }
      std::vector<std::byte> blocks(row_bytes(Format::q4_0, tile.size()));
      quantise_row(Format::q4_0, tile.data(), blocks.data(), tile.size());
      dequantise_row(Format::q4_0, blocks.data(), tile.data(), tile.size());
      for (std::size_t k = 0; k < 32; ++k) {
        for (std::size_t n = 0; n < 32; ++n) ASSERT_EQ(got[at(k, n)], tile[64 * (k / 2) + 2 * n + k % 2]) << k << " " << n;
      }
    }
  }
}

TEST(HmxGroups, edges_are_groups_with_zeros) {
  const std::vector<float> w = random_matrix(18 * 5);
  std::vector<float> got = w;
  round_to_hmx_groups(got, 5);
  // The last column's last two rows are a group of two: one of them is the outermost level, within half a step of binary16.
  EXPECT_NE(got, w);
  const float largest = std::max(std::abs(w[16 * 5 + 4]), std::abs(w[17 * 5 + 4]));
  EXPECT_NEAR(std::max(std::abs(got[16 * 5 + 4]), std::abs(got[17 * 5 + 4])), largest, largest * 0x1p-11f);
}

}  // namespace
}  // namespace vitro
