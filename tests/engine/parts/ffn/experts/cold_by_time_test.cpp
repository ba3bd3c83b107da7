#include "engine/parts/ffn/experts/cold_by_time.hpp"

#include <gtest/gtest.h>

#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

GroupRule rule_of(std::uint32_t units) {
  GroupRule rule;
  rule.group = 4;
  rule.units = units;
  return rule;
}

std::size_t cold(const LayerPlacement& placement) { return static_cast<std::size_t>(std::ranges::count(placement.capacity, 0u)); }

TEST(ColdByTime, cores_take_as_many_experts_as_they_finish_meanwhile) {
  const LayerLoad load{std::vector<double>(8, 32), std::vector<std::uint32_t>(8, 32), {}};
  // An expert takes 1 s on the unit and 3 s on the cores: 6 beside 2.
  EXPECT_EQ(cold(place_by_time(load, rule_of(1), {0, 1, 0, 3, 0})), 2u);
  // Cores that are as fast take half.
  EXPECT_EQ(cold(place_by_time(load, rule_of(1), {0, 1, 0, 1, 0})), 4u);
  EXPECT_EQ(cold(place_by_time(load, rule_of(1), {0, 1, 0, 100, 0})), 0u);
  EXPECT_EQ(cold(place_by_time(load, rule_of(1), {100, 1, 0, 1, 0})), 8u) << "a launch that takes longer than all experts";
}

TEST(ColdByTime, a_layer_takes_what_the_slowest_of_its_units_takes) {
  const LayerLoad load{{40, 30, 10}, {48, 32, 16}, {}};
  GroupRule rule = rule_of(2);
  rule.cold = 1;
  const LayerPlacement placement = place_experts(load, rule);
  ASSERT_EQ(placement.groups.size(), 2u);
  // 5 + 10 + 48 beside 5 + 10 + 32, and 7 + 2 x 10 on cores.
  EXPECT_DOUBLE_EQ(layer_seconds(load, placement, rule, {5, 10, 1, 7, 2}), 63);
  EXPECT_DOUBLE_EQ(layer_seconds(load, placement, rule, {5, 10, 1, 70, 2}), 90);
}

TEST(ColdByTime, a_layer_has_no_more_graphs_than_its_share) {
  const LayerLoad load{std::vector<double>(8, 32), std::vector<std::uint32_t>(8, 32), {}};
  const ExpertPrices prices{0, 1, 0, 3, 0};
  EXPECT_EQ(place_by_time(load, rule_of(1), prices).groups.size(), 2u);
  EXPECT_EQ(place_by_time(load, rule_of(1), prices, 1).groups.size(), 1u);
  EXPECT_EQ(cold(place_by_time(load, rule_of(1), prices, 0)), 8u);
}

TEST(ColdByTime, no_number_of_cold_experts_takes_less) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(31));
    LayerLoad load;
    for (const double share : shares(rng, experts)) load.expected.push_back(512 * share);
    for (const double rows : load.expected) load.capacity.push_back(rows > 32 ? 64 : 32);
    GroupRule rule = rule_of(1 + static_cast<std::uint32_t>(rng.below(3)));
    const ExpertPrices prices{rng.uniform(), rng.uniform(), 0.01 * rng.uniform(), rng.uniform(), 0.01 * rng.uniform()};
    const double best = layer_seconds(load, place_by_time(load, rule, prices), rule, prices);
    for (rule.cold = 0; rule.cold <= experts; ++rule.cold) EXPECT_LE(best, layer_seconds(load, place_experts(load, rule), rule, prices));
  }
}

}  // namespace
}  // namespace vitro
