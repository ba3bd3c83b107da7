#include "engine/parts/ffn/expert_plan.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

TEST(ExpertPlan, regroups_rows_by_ascending_expert) {
  const ExpertPlan plan = make_expert_plan({{{3, 1}, {0.7f, 0.3f}}, {{1, 0}, {0.6f, 0.4f}}}, 4);
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.groups[0].expert, 0);
  EXPECT_EQ(plan.groups[1].expert, 1);
  EXPECT_EQ(plan.groups[1].first, 1u);
  EXPECT_EQ(plan.groups[1].count, 2u);
  EXPECT_EQ(plan.groups[2].expert, 3);
  EXPECT_EQ(plan.rows, (std::vector<std::uint32_t>{1, 0, 1, 0}));
}

TEST(ExpertPlan, sources_and_weights_follow_ascending_expert_order) {
  const ExpertPlan plan = make_expert_plan({{{3, 1}, {0.7f, 0.3f}}, {{1, 0}, {0.6f, 0.4f}}}, 4);
  EXPECT_EQ(plan.sources, (std::vector<std::uint32_t>{1, 3, 0, 2}));
  EXPECT_EQ(plan.weights, (std::vector<float>{0.3f, 0.7f, 0.4f, 0.6f}));
}

}  // namespace
}  // namespace vitro
