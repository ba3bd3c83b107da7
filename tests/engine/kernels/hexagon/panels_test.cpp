// Panels and the tile that lies together in them.
#include "engine/kernels/hexagon/panels.hpp"

#include <gtest/gtest.h>

#include "engine/base/lut_tiling.hpp"
#include "engine/kernels/hexagon/hmx.hpp"

namespace vitro::test {
namespace {

using lut::search_tiling;
using lut::TilingLimits;

// What the worker's kernels and layouts have fixed divides the tile, whatever is searched: a tile is whole panels, and its columns are
// whole blocks of whole tables.
TEST(Panels, are_steps_of_the_tile) {
  const TilingLimits limits;
  EXPECT_EQ(hexagon::kVectorBytes, limits.vector_bytes);
  EXPECT_EQ(hexagon::kTile, limits.mma);
  for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) {
    for (const std::uint32_t group : {32u, 64u, 128u}) {
      for (const std::uint32_t value_bits : {8u, 16u}) {
        const auto tiling = search_tiling(limits, {bits, group}, value_bits);
        ASSERT_TRUE(tiling);
        EXPECT_EQ(tiling->rows % hexagon::kLutPanelRows, 0u);
        EXPECT_EQ(tiling->columns % group, 0u);
        EXPECT_EQ(tiling->columns / tiling->table_registers, 16u);  // four tables in a vector, as the kernels have them
        EXPECT_LE(tiling->rows, hexagon::kMostTileRows);
        EXPECT_EQ(tiling->columns, hexagon::kMostTileColumns);  // for which float stages are compiled and priced
        const hexagon::TileShape packed = hexagon::tile_shape(bits, group);
        EXPECT_EQ(packed.columns, tiling->columns);  // exact tables, rounded ones and prefill read one layout
        EXPECT_EQ(packed.rows, search_tiling(limits, {bits, group})->rows);
      }
    }
  }
}

}  // namespace
}  // namespace vitro::test
