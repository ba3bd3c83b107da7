#include "engine/parts/ffn/experts/expert_groups.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

GroupRule rule_of(std::uint32_t group, bool residency, std::uint32_t units) {
  GroupRule rule;
  rule.group = group;
  rule.residency = residency;
  rule.cold_rows = 16;
  rule.launch_rows = 8.0 * group;
  rule.units = units;
  return rule;
}

LayerPlacement place_experts(std::vector<double> expected, std::vector<std::uint32_t> capacity, const GroupRule& rule) {
  return vitro::place_experts(LayerLoad{std::move(expected), std::move(capacity), {}}, rule);
}

TEST(ExpertGroups, like_capacities_share_a_graph_and_the_hottest_come_first) {
  const LayerPlacement placement = place_experts({40, 20, 60, 30}, {64, 32, 64, 32}, rule_of(4, false, 1));
  ASSERT_EQ(placement.groups.size(), 2u);
  EXPECT_EQ(placement.groups[0].experts, (std::vector<std::uint16_t>{2, 0}));
  EXPECT_EQ(placement.groups[1].experts, (std::vector<std::uint16_t>{3, 1}));
  EXPECT_EQ(placement.rows, 192u);
  EXPECT_EQ(placement.first, (std::vector<std::uint32_t>{64, 160, 0, 128}));
}

TEST(ExpertGroups, a_tier_is_cut_into_graphs_of_like_size) {
  const std::vector<double> expected(10, 30);
  const LayerPlacement placement = place_experts(expected, std::vector<std::uint32_t>(10, 32), rule_of(8, false, 2));
  ASSERT_EQ(placement.groups.size(), 2u);
  EXPECT_EQ(placement.groups[0].experts.size(), 5u);
  EXPECT_NE(placement.groups[0].unit, placement.groups[1].unit);
}

TEST(ExpertGroups, each_unit_gets_a_graph_of_a_tier_unless_that_leaves_lone_experts) {
  const std::vector<double> expected(6, 30);
  const std::vector<std::uint32_t> like(6, 32);
  EXPECT_EQ(place_experts(expected, like, rule_of(8, false, 2)).groups.size(), 2u);
  EXPECT_EQ(place_experts(expected, like, rule_of(8, false, 4)).groups.size(), 3u);
  EXPECT_EQ(place_experts(expected, like, rule_of(8, false, 1)).groups.size(), 1u);
}

TEST(ExpertGroups, cold_experts_stay_with_the_cores) {
  GroupRule rule = rule_of(2, true, 1);
  rule.cold = 1;
  const LayerPlacement placement = place_experts({60, 50, 16, 40}, {64, 64, 16, 64}, rule);  // one at the base, and the least loaded
  EXPECT_EQ(placement.capacity, (std::vector<std::uint32_t>{64, 64, 0, 64}));
  rule.cold = 2;
  EXPECT_EQ(place_experts({60, 50, 16, 40}, {64, 64, 16, 64}, rule).capacity, (std::vector<std::uint32_t>{64, 64, 0, 0}));
}

TEST(ExpertGroups, a_small_group_is_not_worth_a_launch) {
  const GroupRule rule = rule_of(8, true, 1);  // 64 rows are
  EXPECT_TRUE(place_experts({20, 20, 20}, {32, 32, 32}, rule).groups.empty());
  EXPECT_EQ(place_experts({24, 20, 20}, {32, 32, 32}, rule).groups.size(), 1u);
}

// 60 rows are too few for a launch, but those that are warm beside them make up for it.
TEST(ExpertGroups, a_lone_hottest_expert_takes_cooler_ones_into_its_graph) {
  const GroupRule rule = rule_of(8, true, 1);
  LayerPlacement placement = place_experts({60, 30, 30, 28, 26, 24}, {64, 32, 32, 32, 32, 32}, rule);
  EXPECT_EQ(placement.capacity, (std::vector<std::uint32_t>{64, 64, 32, 32, 32, 32})) << "one, since the others are worth a launch";
  placement = place_experts({60, 30, 28, 26}, {64, 32, 32, 32}, rule);
  EXPECT_EQ(placement.groups.size(), 1u) << "all, since 54 rows would not be";
  EXPECT_EQ(placement.groups.front().experts, (std::vector<std::uint16_t>{0, 1, 2, 3}));
}

TEST(ExpertGroups, padding_makes_the_coolest_experts_cold) {
  GroupRule rule = rule_of(8, true, 1);
  rule.cold_rows = 0;
  rule.max_padding = 0.5;
  const std::vector<double> expected{64, 60, 20, 10, 5};
  const std::vector<std::uint32_t> like(5, 64);
  const LayerPlacement placement = place_experts(expected, like, rule);
  EXPECT_EQ(placement.capacity, (std::vector<std::uint32_t>{64, 64, 64, 64, 0}));  // 102 of 261 rows; with the last one 161 of 320
  EXPECT_DOUBLE_EQ(expected_padding({expected, like, {}}, placement), 102.0 / 261);
}

TEST(ExpertGroups, the_experts_on_cores_are_the_coolest) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(127));
    TierRule tiers;
    tiers.multiple = 16, tiers.chunk = 128u << rng.below(4), tiers.experts_used = 1u << rng.below(3);
    GroupRule rule = rule_of(1 + static_cast<std::uint32_t>(rng.below(16)), true, 1 + static_cast<std::uint32_t>(rng.below(3)));
    rule.cold = static_cast<std::uint32_t>(rng.below(experts));
    rule.max_padding = 0.5;
    const ExpertLoads loads{shares(rng, experts)};
    LayerLoad load;
    for (const double share : loads[0]) load.expected.push_back(expected_rows(share, tiers));
    load.capacity = capacities(loads, overflow_curves(loads, {}, tiers), tiers).front();
    const LayerPlacement placement = vitro::place_experts(load, rule);
    EXPECT_LE(expected_padding(load, placement), 0.5);
    for (std::size_t e = 0; e < experts; ++e) {
      EXPECT_TRUE(placement.capacity[e] == 0 || placement.capacity[e] >= load.capacity[e]);
      for (std::size_t f = 0; f < experts; ++f) {
        const bool cooler_in_graph = placement.capacity[e] == 0 && placement.capacity[f] > 0 && load.expected[f] < load.expected[e];
        EXPECT_FALSE(cooler_in_graph) << "expert " << e << " is on cores, and " << f << " is not";
      }
    }
  }
}

TEST(ExpertGroups, every_expert_has_one_place_and_no_group_is_too_large) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(63));
    TierRule tiers;
    tiers.multiple = 16;
    tiers.chunk = 256;
    GroupRule rule = rule_of(1 + static_cast<std::uint32_t>(rng.below(8)), rng.below(2) == 0, 1 + static_cast<std::uint32_t>(rng.below(3)));
    rule.cold = static_cast<std::uint32_t>(rng.below(experts));
    const ExpertLoads loads{shares(rng, experts)};
    std::vector<double> expected;
    for (const double share : loads[0]) expected.push_back(expected_rows(share, tiers));
    const std::vector<std::uint32_t> own = capacities(loads, overflow_curves(loads, {}, tiers), tiers).front();
    const LayerPlacement placement = place_experts(expected, own, rule);
    std::set<std::uint16_t> placed;
    std::uint32_t rows = 0;
    for (const StaticGroup& group : placement.groups) {
      EXPECT_LE(group.experts.size(), rule.group);
      EXPECT_LT(group.unit, rule.units);
      EXPECT_EQ(group.first, rows);
      rows += group.rows();
      for (const std::uint16_t expert : group.experts) {
        EXPECT_TRUE(placed.insert(expert).second);
        EXPECT_LE(own[expert], group.capacity);
        EXPECT_TRUE(rule.residency || own[expert] == group.capacity);
        EXPECT_EQ(placement.capacity[expert], group.capacity);
      }
    }
    EXPECT_EQ(rows, placement.rows);
    for (std::uint16_t e = 0; e < experts; ++e) EXPECT_EQ(placed.contains(e), placement.capacity[e] > 0);
    if (!rule.residency) {
      EXPECT_EQ(placed.size(), experts);
    }
  }
}

}  // namespace
}  // namespace vitro
