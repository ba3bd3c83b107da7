// Kernels see the file and decisions stay the same, for any budget, rule and timing.
#include "tests/engine/parts/weights/expert_kit.hpp"

namespace vitro::cached_experts {
namespace {

class ExpertResidencyTest : public CachedExperts {};

// Any budget from one expert on, any rule, any timing: kernels see the file, and what is read is what was loaded.
TEST_F(ExpertResidencyTest, kernels_see_the_file_and_reads_are_loads_for_any_budget_rule_and_timing) {
  const std::vector<std::string> rules = evictions().names();
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    Given given;
    given.budget = kExpert * (1 + rng.below(kLayers * kExperts - 1)) + rng.below(kExpert);
    given.eviction = rules[rng.below(rules.size())];
    given.look_ahead = rng.below(2) == 0;
    given.timing = seed;
    make(given);
    const std::vector<Step> all = drawn(seed, 6, given.look_ahead);
    run(all);
    int calls = 0;
    for (const Step& step : all) {
      for (const auto& experts : step.chosen) calls += 2 * static_cast<int>(kRolesOf * experts.size());
    }
    EXPECT_EQ(function_.wrong, 0) << seed;
    EXPECT_EQ(function_.calls, calls) << seed;
    const ExpertCacheStats& stats = *residency_->expert_stats();
    EXPECT_EQ(stats.bytes, read_since_load()) << seed;
    if (!given.look_ahead) {
      EXPECT_EQ(decided(), read_since_load()) << seed;
    } else {
      EXPECT_LE(read_since_load(), decided()) << seed << ": what is given up is not read";
    }
    EXPECT_LE(host_->machine().memory.budget(Placement::dram).region_peak[static_cast<std::size_t>(Region::cold)], given.budget);
  }
}

TEST_F(ExpertResidencyTest, decisions_do_not_depend_on_timing) {
  std::vector<std::string> first;
  for (std::uint64_t timing = 1; timing <= 12; ++timing) {
    Given given;
    given.budget = 5 * kExpert;
    given.timing = timing;
    make(given);
    run(drawn(7, 8, true));
    if (first.empty()) first = trace_.made;
    EXPECT_EQ(trace_.made, first) << timing;
  }
  EXPECT_GT(first.size(), 20u);
}

TEST_F(ExpertResidencyTest, an_expert_is_read_once_as_long_as_it_stays) {
  make({.budget = 4 * kExpert});
  const std::vector<Step> all(3, Step{{{1}, {2}, {0}}, {{}, {}, {}}});
  run(all);
  EXPECT_EQ(residency_->stats().misses, kLayers * kRolesOf);
  EXPECT_EQ(residency_->stats().hits, 2 * kLayers * kRolesOf);
  EXPECT_EQ(read_since_load(), decided());
}

TEST_F(ExpertResidencyTest, what_was_foreseen_is_on_its_way_when_it_is_wanted) {
  make({.budget = 4 * kExpert});
  run({Step{{{1}, {2}, {0}}, {{2}, {3}, {}}}});
  const ExpertCacheStats& stats = *residency_->expert_stats();
  EXPECT_EQ(stats.foreseen, 2 * kRolesOf);
  EXPECT_EQ(stats.foreseen_used, kRolesOf) << "expert 2 of layer 1; expert 3 of layer 2 was not wanted";
  EXPECT_EQ(stats.named_right, 1u);
  EXPECT_EQ(stats.wanted, 2u);
  EXPECT_EQ(residency_->stats().misses, 2 * kRolesOf);
}

}  // namespace
}  // namespace vitro::cached_experts
