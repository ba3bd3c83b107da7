#include "traces/foresight.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace vitro {
namespace {

const ExpertChoice kTruth{{2, 7, 11}, {0.5f, 0.3f, 0.2f}};

ExpertChoice at(std::uint32_t position, double share, std::uint64_t seed = 4) {
  return foresee(kTruth, share, {seed, 3, {0, position}, 16});
}

TEST(Foresight, a_chosen_expert_is_named_with_the_share_and_else_one_that_was_not_chosen) {
  for (const double share : {0.0, 0.48, 1.0}) {
    std::uint32_t right = 0;
    for (std::uint32_t position = 0; position < 3000; ++position) {
      const ExpertChoice named = at(position, share);
      ASSERT_EQ(std::set<std::uint16_t>(named.ids.begin(), named.ids.end()).size(), 3u);
      ASSERT_EQ(named.weights, kTruth.weights);
      ASSERT_TRUE(std::ranges::all_of(named.ids, [](std::uint16_t expert) { return expert < 16; }));
      for (const std::uint16_t expert : kTruth.ids) right += std::ranges::count(named.ids, expert) > 0 ? 1 : 0;
    }
    EXPECT_NEAR(right / 9000.0, share, 0.03);
  }
}

TEST(Foresight, hangs_on_seed_and_position_alone) {
  std::uint32_t other_position = 0, other_seed = 0;
  for (std::uint32_t position = 0; position < 50; ++position) {
    EXPECT_EQ(at(position, 0.5).ids, at(position, 0.5).ids);
    other_position += at(position, 0.5).ids != at(position + 1, 0.5).ids ? 1 : 0;
    other_seed += at(position, 0.5).ids != at(position, 0.5, 5).ids ? 1 : 0;
  }
  EXPECT_GT(other_position, 25u);
  EXPECT_GT(other_seed, 25u);
}

TEST(Foresight, where_all_experts_are_chosen_there_is_no_other_to_name) {
  EXPECT_EQ(foresee({{1, 0}, {0.5f, 0.5f}}, 0, {1, 0, {0, 0}, 2}).ids, (std::vector<std::uint16_t>{1, 0}));
}

}  // namespace
}  // namespace vitro
