#include "engine/parts/weights/worth_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

std::optional<std::uint32_t> least(WorthOrder<int>& order, const std::vector<int>& worth, std::uint32_t held = 1000) {
  return order.least([&](std::uint32_t block) { return worth[block]; }, [held](std::uint32_t block) { return block == held; });
}

TEST(WorthOrder, a_block_that_rose_is_not_the_least) {
  std::vector<int> worth{1, 2, 3};
  WorthOrder<int> order(3);
  EXPECT_EQ(least(order, worth), std::nullopt);
  for (std::uint32_t block = 0; block < 3; ++block) order.insert(block, worth[block]);
  EXPECT_EQ(least(order, worth), 0u);
  worth[0] = 3;
  EXPECT_EQ(least(order, worth), 1u);
  worth[1] = 3;
  EXPECT_EQ(least(order, worth), 0u) << "of equals the lowest number";
}

TEST(WorthOrder, a_block_that_goes_and_comes_back_may_be_worth_less) {
  std::vector<int> worth{5, 3};
  WorthOrder<int> order(2);
  order.insert(0, 5);
  order.insert(1, 3);
  order.erase(0);
  EXPECT_EQ(least(order, worth), 1u);
  worth[0] = 1;
  order.insert(0, 1);
  EXPECT_EQ(least(order, worth), 0u);
  order.erase(0);
  order.erase(1);
  EXPECT_EQ(least(order, worth), std::nullopt);
}

TEST(WorthOrder, what_is_held_back_is_asked_about_once_before_a_release) {
  std::vector<int> worth{1, 2};
  WorthOrder<int> order(2);
  order.insert(0, 1);
  order.insert(1, 2);
  int asked = 0;
  const auto search = [&] {
    return order.least([&](std::uint32_t block) { return worth[block]; },
                       [&](std::uint32_t block) {
                         asked += block == 0 ? 1 : 0;
                         return block == 0;
                       });
  };
  EXPECT_EQ(search(), 1u);
  EXPECT_EQ(search(), 1u);
  EXPECT_EQ(asked, 1);
  order.release();
  EXPECT_EQ(search(), 1u);
  EXPECT_EQ(asked, 2);
}

// Against a search of all blocks.
TEST(WorthOrder, the_least_is_that_of_all_resident_blocks) {
  constexpr std::uint32_t kBlocks = 30;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    Rng rng(seed);
    std::vector<int> worth(kBlocks);
    std::vector<bool> resident(kBlocks), pinned(kBlocks);
    WorthOrder<int> order(kBlocks);
    int searches = 0;
    for (int i = 0; i < 20'000; ++i) {
      const auto block = static_cast<std::uint32_t>(rng.below(kBlocks));
      switch (rng.below(7)) {
        case 0:
          if (resident[block]) {
            order.erase(block);
          } else {
            order.insert(block, worth[block] = static_cast<int>(rng.below(10)));
          }
          resident[block] = !resident[block];
          break;
        case 1:
          if (!resident[block]) break;
          worth[block] -= static_cast<int>(rng.below(4));
          order.fall(block, worth[block]);
          ASSERT_TRUE(order.contains(block));
          break;
        case 4:
          pinned[block] = true;
          break;
        case 2:
          if (rng.below(8) > 0) break;
          order.release();
          std::fill(pinned.begin(), pinned.end(), false);
          break;
        case 3: {
          std::optional<std::uint32_t> expected;
          for (std::uint32_t b = 0; b < kBlocks; ++b) {
            if (resident[b] && !pinned[b] && (!expected || worth[b] < worth[*expected])) expected = b;
          }
          ASSERT_EQ(order.least([&](std::uint32_t b) { return worth[b]; }, [&](std::uint32_t b) { return pinned[b]; }), expected) << seed;
          searches += expected ? 1 : 0;
          break;
        }
        default:
          worth[block] += static_cast<int>(rng.below(3));
      }
    }
    EXPECT_GT(searches, 1000);
  }
}

}  // namespace
}  // namespace vitro
