// When tiers follow a load, and what is expected then.
#include "engine/parts/ffn/experts/expert_drift.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

TEST(ExpertDrift, follows_where_more_overflows_than_tiers_were_made_for_or_half_of_the_hot_are_others) {
  const ExpertLoads expected{{0.5, 0.5}, {0.25, 0.75}}, observed{{1, 0}, {0, 0}}, halves{{0.75, 0.25}, {0.25, 0.75}};
  const auto rule = drift_rules().find("follow")->make();
  EXPECT_EQ(rule->follow({expected, observed, 0.1, 0.6, 0.1}), std::nullopt);
  EXPECT_EQ(rule->follow({expected, observed, 0.11, 0.6, 0.1}), halves);
  EXPECT_EQ(rule->follow({expected, observed, 0.1, 0.5, 0.1}), halves);
}

TEST(ExpertDrift, a_rule_without_a_maker_never_follows) { EXPECT_FALSE(drift_rules().find("stay")->make); }

}  // namespace
}  // namespace vitro
