#include "engine/ops/query_tiles.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "engine/base/rng.hpp"

namespace vitro::ops {
namespace {

// Drawn rows of a few sequences, which see windows of their own; sequences share nothing.
TEST(QueryTiles, cover_each_row_once_and_share_half_of_what_each_sees) {
  Rng rng(5);
  for (int draw = 0; draw < 200; ++draw) {
    const std::size_t group = 1 + rng.below(8);
    std::vector<std::pair<std::uint64_t, Range>> rows;
    const std::uint64_t sequences = 1 + rng.below(3);
    for (std::uint64_t sequence = 0; sequence < sequences; ++sequence) {
      const auto begin = static_cast<std::uint32_t>(rng.below(300)), window = static_cast<std::uint32_t>(rng.below(2) * 40);
      const std::uint64_t count = 1 + rng.below(70);
      for (std::uint32_t i = 0; i < count; ++i) rows.emplace_back(sequence, visible(begin + i, window));
    }
    const auto seen = [&](std::uint32_t row) { return rows[row].second; };
    const auto shared = [&](Range tokens, std::uint32_t first, std::uint32_t row) {
      return rows[first].first == rows[row].first ? common(tokens, seen(row)) : Range{};
    };
    std::uint32_t next = 0;
    while (next < rows.size()) {
      const QueryTile tile = query_tile(next, rows.size(), group, seen, shared);
      ASSERT_EQ(tile.first, next);
      ASSERT_GE(tile.rows, 1u);
      EXPECT_LE(tile.rows, std::max<std::size_t>(1, kQueriesTogether / group));
      const Range all = seen_by_any(tile, seen);
      for (std::uint32_t row = tile.first; row < tile.first + tile.rows; ++row) {
        const Range own = seen(row);
        EXPECT_EQ(rows[row].first, rows[next].first) << "rows of two sequences";
        EXPECT_TRUE(own.first <= tile.tokens.first && tile.tokens.end() <= own.end()) << "a token that a row does not see";
        EXPECT_TRUE(all.first <= own.first && own.end() <= all.end());
        EXPECT_GE(2 * tile.tokens.count, own.count);
      }
      next += tile.rows;
      if (next < rows.size() && tile.rows < rows_together(group, seen(tile.first).count)) {
        std::uint32_t longest = 0;
        for (std::uint32_t row = tile.first; row <= next; ++row) longest = std::max(longest, seen(row).count);
        EXPECT_LT(2 * shared(tile.tokens, tile.first, next).count, longest) << "a row that could have joined";
      }
    }
    EXPECT_EQ(next, rows.size());
  }
}

TEST(QueryTiles, ranges_that_do_not_meet_have_nothing_in_common) {
  EXPECT_EQ(common({0, 4}, {4, 2}).count, 0u);
  EXPECT_EQ(common({6, 1}, {0, 3}).count, 0u);
  EXPECT_EQ(common({1, 5}, {3, 9}).first, 3u);
  EXPECT_EQ(common({1, 5}, {3, 9}).count, 3u);
}

}  // namespace
}  // namespace vitro::ops
