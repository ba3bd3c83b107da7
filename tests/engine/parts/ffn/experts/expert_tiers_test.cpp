#include "engine/parts/ffn/experts/expert_tiers.hpp"

#include <gtest/gtest.h>

#include "engine/parts/ffn/experts/layer_loads.hpp"
#include "tests/effort.hpp"
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

TierRule without_bound(TierRule rule) {
  rule.max_drop = 1;
  return rule;
}

std::vector<std::vector<std::uint32_t>> capacities_of(const ExpertLoads& loads, const TierRule& rule, const ChunkCounts& counts = {}) {
  return capacities(loads, overflow_curves(loads, counts, rule), rule);
}

// NPUMoE 4.1: B = 256, E = 8 and r = 2 give a base of 32 and 64 tokens for the busiest expert (npumoe_capacity_example).
TEST(ExpertTiers, the_worked_example_of_the_paper) {
  const std::vector<double> layer{0.25, 0.125, 0.125, 0.125, 0.125, 0.1, 0.1, 0.05};
  const TierRule rule = without_bound(rule_of(256, 1, 16));
  EXPECT_EQ(base_capacity(8, rule), 32u);
  EXPECT_DOUBLE_EQ(imbalance(layer), 2);
  EXPECT_DOUBLE_EQ(expected_rows(layer[0], rule), 64);
  EXPECT_EQ(capacities_of({layer}, rule).front(), (std::vector<std::uint32_t>{64, 32, 32, 32, 32, 32, 32, 16}));
}

// Qwen3-30B-A3B: 128 experts, top-8. The mean load is 16 rows of a chunk of 256, where B / E is 2.
TEST(ExpertTiers, the_base_knows_how_many_experts_a_row_chooses) {
  TierRule rule = without_bound(rule_of(256, 8, 16));
  EXPECT_EQ(base_capacity(128, rule), 16u);
  std::vector<double> layer(128, (1 - 3.0 / 128) / 127);
  layer[0] = 3.0 / 128;  // r = 3: 48 rows
  std::vector<std::uint32_t> own = capacities_of({layer}, rule).front();
  EXPECT_EQ(own[0], 48u);
  EXPECT_EQ(own[1], 16u);
  rule.base_of = BaseOf::rows;
  EXPECT_EQ(base_capacity(128, rule), 2u);
  own = capacities_of({layer}, rule).front();
  EXPECT_EQ(own[0], 16u) << "as published: 1, 2 and 4 times 2 rows are one shape";
}

TEST(ExpertTiers, without_the_number_of_chosen_experts_a_bound_has_to_make_up_for_it) {
  TierRule rule = rule_of(512, 8, 16);
  rule.base_of = BaseOf::rows;
  const ExpertLoads loads{std::vector<double>(128, 1.0 / 128)};
  const auto curves = overflow_curves(loads, {}, rule);
  const auto share = [&](const TierRule& of) {
    const std::vector<std::uint32_t> own = capacities(loads, curves, of).front();
    double beyond = 0;
    for (std::size_t e = 0; e < own.size(); ++e) beyond += curves[0][e].beyond(own[e]);
    return beyond / (512 * 8);
  };
  EXPECT_GT(share(without_bound(rule)), 0.45);  // slices of 16 rows at a mean load of 32
  EXPECT_LE(share(rule), 0.1);
}

TEST(ExpertTiers, an_expert_gets_the_smallest_tier_that_holds_its_load) {
  TierRule rule = without_bound(rule_of(256, 2, 16));
  rule.base_of = BaseOf::rows;  // tiers of 16, 32 and 64 rows for 16 experts
  std::vector<double> layer(16, 0.0);
  layer[0] = 16.0 / 512, layer[1] = 16.1 / 512, layer[2] = 32.0 / 512, layer[3] = 33.0 / 512, layer[4] = 250.0 / 512;
  const std::vector<std::uint32_t> own = capacities_of({layer}, rule).front();
  EXPECT_EQ(std::vector<std::uint32_t>(own.begin(), own.begin() + 6), (std::vector<std::uint32_t>{16, 32, 32, 64, 64, 16}));
}

TEST(ExpertTiers, the_largest_tier_is_the_layers_own) {
  const TierRule rule = without_bound(rule_of(256, 2, 16));
  const auto own = capacities_of({{0.5, 0.2, 0.2, 0.1}, {0.25, 0.25, 0.25, 0.25}}, rule);
  EXPECT_EQ(own[0], (std::vector<std::uint32_t>{256, 128, 128, 64}));
  EXPECT_EQ(own[1], (std::vector<std::uint32_t>{128, 128, 128, 128}));
}

TEST(ExpertTiers, without_tiers_all_have_what_the_busiest_is_expected_to_get) {
  TierRule rule = rule_of(256, 2, 16);
  rule.tiers = false;
  const auto all = capacities_of({{0.35, 0.3, 0.35}, {0.4, 0.2, 0.4}}, rule);
  EXPECT_EQ(all, (std::vector<std::vector<std::uint32_t>>(2, std::vector<std::uint32_t>(3, 208))));  // 0.4 x 512 = 204.8
  rule.capacity = 100;
  EXPECT_EQ(capacities_of({{0.5, 0.5}}, rule).front(), (std::vector<std::uint32_t>{112, 112}));
}

TEST(ExpertTiers, one_capacity_grows_until_every_layer_meets_the_bound) {
  TierRule rule = rule_of(64, 1, 8);
  rule.tiers = false;
  const ExpertLoads even{std::vector<double>(8, 0.125)};
  EXPECT_EQ(capacities_of(even, without_bound(rule)).front().front(), 8u);
  rule.max_drop = 0.02;
  EXPECT_EQ(capacities_of(even, rule).front().front(), 16u);
}

TEST(ExpertTiers, capacities_are_shapes_within_a_chunk_and_a_hotter_expert_has_no_less) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(31));
    TierRule rule = rule_of(static_cast<std::uint32_t>(1 + rng.below(512)), 1 + static_cast<std::uint32_t>(rng.below(2)),
                            static_cast<std::uint32_t>(1 + rng.below(32)));
    rule.max_drop = 0.01 * static_cast<double>(rng.below(30));
    if (rng.below(2) == 0) rule.base_of = BaseOf::rows;
    const ExpertLoads loads{shares(rng, experts), shares(rng, experts)};
    const auto curves = overflow_curves(loads, {}, rule);
    const auto all = capacities(loads, curves, rule);
    ASSERT_EQ(all.size(), loads.size());
    for (std::size_t layer = 0; layer < all.size(); ++layer) {
      double beyond = 0;
      for (std::size_t e = 0; e < experts; ++e) {
        EXPECT_GT(all[layer][e], 0u);
        EXPECT_EQ(all[layer][e] % rule.multiple, 0u);
        EXPECT_LT(all[layer][e], rule.chunk + rule.multiple);
        beyond += curves[layer][e].beyond(all[layer][e]);
        for (std::size_t f = 0; f < experts; ++f) EXPECT_TRUE(loads[layer][e] <= loads[layer][f] || all[layer][e] >= all[layer][f]);
      }
      EXPECT_LE(beyond, rule.max_drop * rule.chunk * rule.experts_used + 1e-6);
    }
  }
}

// What the calibration chose holds for chunks that it has not seen, whatever the mixture.
TEST(ExpertTiers, drops_and_padding_of_other_chunks_are_within_their_bounds) {
  for (const std::uint32_t experts : {8u, 16u, 64u, 128u}) {
    for (const std::uint32_t k : {1u, 2u, 4u, 8u}) {
      for (const std::uint32_t chunk : {128u, 256u, 512u, 1024u}) {
        if (k == experts) continue;
        for (std::uint64_t seed = 1; seed <= test::all_or_few<std::uint64_t>(4, 1); ++seed) {
          SCOPED_TRACE(testing::Message() << experts << " experts, top-" << k << ", chunk " << chunk << ", seed " << seed);
          Rng rng(seed * 1000 + experts * 10 + k);
          constexpr std::uint32_t kChunks = 8;
          const auto counts_of = [&] {
            std::vector<std::vector<std::uint32_t>> counts(kChunks, std::vector<std::uint32_t>(experts));
            for (auto& own : counts) {
              for (const ExpertChoice& choice : choices(rng, chunk, experts, k)) {
                for (const std::uint16_t expert : choice.ids) ++own[expert];
              }
            }
            return counts;
          };
          const auto seen = counts_of(), other = counts_of();
          std::vector<double> layer(experts);
          for (const auto& own : seen) {
            for (std::size_t e = 0; e < experts; ++e) layer[e] += own[e] / static_cast<double>(kChunks * chunk * k);
          }
          const TierRule rule = rule_of(chunk, k, rng.below(2) == 0 ? 16 : 1);
          const LayerLoad load = layer_loads({layer}, {seen}, rule).front();
          const double expected_beyond = std::accumulate(load.overflow.begin(), load.overflow.end(), 0.0);
          EXPECT_LE(expected_beyond, 0.1 * chunk * k + 1e-6);
          GroupRule groups;
          groups.group = 8;
          groups.max_padding = 0.5;
          const LayerPlacement placement = place_experts(load, groups);
          EXPECT_LE(expected_padding(load, placement), 0.5);
          double dropped = 0, computed = 0, padded = 0;
          for (const auto& own : other) {
            for (std::size_t e = 0; e < experts; ++e) {
              const std::uint32_t capacity = placement.capacity[e], taken = capacity == 0 ? own[e] : std::min(capacity, own[e]);
              dropped += own[e] - taken;
              computed += taken;
              padded += capacity > taken ? capacity - taken : 0;
            }
          }
          EXPECT_LE(dropped / (kChunks * chunk * k), 0.12);  // 8 chunks: not more than a fifth above the bound by chance
          EXPECT_LE(padded / (padded + computed), 0.52);
        }
      }
    }
  }
}

}  // namespace
}  // namespace vitro
