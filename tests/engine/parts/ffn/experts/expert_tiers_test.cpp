#include "engine/parts/ffn/experts/expert_tiers.hpp"

#include <gtest/gtest.h>

#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

TierRule rule_of(std::uint32_t chunk, std::uint32_t experts_used, std::uint32_t multiple) {
  TierRule rule;
  rule.chunk = chunk;
  rule.experts_used = experts_used;
  rule.multiple = multiple;
  return rule;
}

// NPUMoE 4.1: B = 256, E = 8 and r = 2 give a base of 32 and 64 tokens for the busiest expert (npumoe_capacity_example).
TEST(ExpertTiers, the_worked_example_of_the_paper) {
  const std::vector<double> layer{0.25, 0.125, 0.125, 0.125, 0.125, 0.1, 0.1, 0.05};
  const TierRule rule = rule_of(256, 1, 16);
  EXPECT_EQ(base_capacity(8, rule), 32u);
  EXPECT_DOUBLE_EQ(expected_rows(layer[0], rule), 64);
  EXPECT_EQ(capacities({layer}, rule).front(), (std::vector<std::uint32_t>{64, 32, 32, 32, 32, 32, 32, 32}));
}

TEST(ExpertTiers, an_expert_gets_the_smallest_tier_that_holds_its_load) {
  const TierRule rule = rule_of(256, 2, 16);  // tiers of 16, 32 and 64 rows for 16 experts
  std::vector<double> layer(16, 0.0);
  layer[0] = 16.0 / 512, layer[1] = 16.1 / 512, layer[2] = 32.0 / 512, layer[3] = 33.0 / 512, layer[4] = 300.0 / 512;
  const std::vector<std::uint32_t> own = capacities({layer}, rule).front();
  EXPECT_EQ(std::vector<std::uint32_t>(own.begin(), own.begin() + 6), (std::vector<std::uint32_t>{16, 32, 32, 64, 64, 16}));
}

TEST(ExpertTiers, without_tiers_all_have_what_the_busiest_is_expected_to_get) {
  TierRule rule = rule_of(256, 2, 16);
  rule.tiers = false;
  const auto all = capacities({{0.7, 0.3}, {0.8, 0.2}}, rule);
  EXPECT_EQ(all, (std::vector<std::vector<std::uint32_t>>{{416, 416}, {416, 416}}));  // 0.8 x 512 = 409.6
  rule.capacity = 100;
  EXPECT_EQ(capacities({{0.7, 0.3}}, rule).front(), (std::vector<std::uint32_t>{112, 112}));
}

TEST(ExpertTiers, capacities_are_shapes_and_no_tier_is_larger_than_needed) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(31));
    const TierRule rule = rule_of(static_cast<std::uint32_t>(1 + rng.below(512)), 1 + static_cast<std::uint32_t>(rng.below(2)),
                                  static_cast<std::uint32_t>(1 + rng.below(32)));
    const ExpertLoads loads{shares(rng, experts), shares(rng, experts)};
    const auto all = capacities(loads, rule);
    ASSERT_EQ(all.size(), loads.size());
    for (std::size_t layer = 0; layer < all.size(); ++layer) {
      const std::uint32_t most = *std::max_element(all[layer].begin(), all[layer].end());
      for (std::size_t e = 0; e < experts; ++e) {
        EXPECT_GT(all[layer][e], 0u);
        EXPECT_EQ(all[layer][e] % rule.multiple, 0u);
        const double rows = expected_rows(loads[layer][e], rule);
        const std::uint32_t top =
            (rule.multiples.back() * base_capacity(experts, rule) + rule.multiple - 1) / rule.multiple * rule.multiple;
        EXPECT_GE(all[layer][e], std::min<double>(rows, top));  // beyond the top tier there is none
        EXPECT_LE(all[layer][e], std::max(top, most));
      }
    }
  }
}

}  // namespace
}  // namespace vitro
