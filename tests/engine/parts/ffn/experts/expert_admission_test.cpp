#include "engine/parts/ffn/experts/expert_admission.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

LayerPlacement one_graph(std::vector<std::uint32_t> capacity) {
  LayerPlacement placement;
  placement.capacity = std::move(capacity);
  for (const std::uint32_t rows : placement.capacity) {
    placement.first.push_back(placement.rows);
    placement.rows += rows;
  }
  return placement;
}

TEST(ExpertAdmission, what_overflows_is_what_the_router_gave_least) {
  const std::vector<ExpertChoice> chosen{{{0}, {0.3f}}, {{0}, {0.9f}}, {{0}, {0.2f}}, {{0}, {0.3f}}};
  const ExpertAdmission admission = admit(chosen, one_graph({2}), Overflow::drop);
  EXPECT_EQ(admission.plan.rows, (std::vector<std::uint32_t>{0, 1}));  // of the two with 0.3 the earlier row
  EXPECT_EQ(admission.plan.sources, (std::vector<std::uint32_t>{0, 1, 0, 0}));
  EXPECT_EQ(admission.plan.weights, (std::vector<float>{0.3f, 0.9f, 0, 0}));
  EXPECT_EQ(admission.dropped, 2u);
  EXPECT_EQ(admission.padded, 0u);
}

TEST(ExpertAdmission, a_rank_of_rows_goes_before_the_routers_weights_and_is_asked_only_where_a_slice_overflows) {
  const std::vector<ExpertChoice> chosen{{{0}, {0.3f}}, {{0}, {0.9f}}, {{0}, {0.2f}}, {{0}, {0.3f}}};
  int asked = 0;
  const auto rank = [&]() -> std::vector<float> {
    ++asked;
    return {1, 2, 4, 3};
  };
  ExpertAdmission admission = admit(chosen, one_graph({2}), Overflow::drop, false, rank);
  EXPECT_EQ(admission.plan.rows, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_TRUE(admission.ranked);
  EXPECT_EQ(admission.overflowed, 2u);
  EXPECT_EQ(asked, 1);
  admission = admit(chosen, one_graph({4}), Overflow::drop, false, rank);
  EXPECT_EQ(admission.overflowed, 0u);
  EXPECT_EQ(asked, 1);
  admission = admit(chosen, one_graph({2}), Overflow::drop, false, [] { return std::vector<float>{}; });
  EXPECT_FALSE(admission.ranked);
  EXPECT_EQ(admission.plan.rows, (std::vector<std::uint32_t>{0, 1}));
}

TEST(ExpertAdmission, overflow_goes_to_the_cores_when_asked) {
  const std::vector<ExpertChoice> chosen{{{0}, {0.3f}}, {{0}, {0.9f}}, {{0}, {0.2f}}};
  const ExpertAdmission admission = admit(chosen, one_graph({1, 4}), Overflow::cpu);
  EXPECT_EQ(admission.dropped, 0u);
  EXPECT_EQ(admission.on_cores, 2u);
  EXPECT_EQ(admission.padded, 4u);
  ASSERT_EQ(admission.plan.groups.size(), 1u);
  EXPECT_EQ(admission.plan.groups[0].first, 5u);  // behind all slices
  EXPECT_EQ(admission.plan.rows, (std::vector<std::uint32_t>{1, 0, 0, 0, 0, 0, 2}));
}

// Every pair that a router chose is computed once, by its expert, with its weight, or it is dropped, and then it counts for nothing.
TEST(ExpertAdmission, every_pair_is_computed_once_or_dropped) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(15)), k = static_cast<std::uint32_t>(1 + rng.below(2));
    const auto rows = static_cast<std::uint32_t>(1 + rng.below(64));
    const std::vector<ExpertChoice> chosen = choices(rng, rows, experts, k);
    std::vector<std::uint32_t> capacity(experts);
    for (std::uint32_t& own : capacity) own = static_cast<std::uint32_t>(rng.below(16));
    const LayerPlacement placement = one_graph(capacity);
    const Overflow overflow = rng.below(2) == 0 ? Overflow::drop : Overflow::cpu;
    const bool on_cores = rng.below(8) == 0;
    const ExpertAdmission out = admit(chosen, placement, overflow, on_cores);

    // Which expert computes a place of the pool, and for which row.
    std::map<std::uint32_t, std::uint16_t> expert_at;
    for (std::uint16_t e = 0; e < experts; ++e) {
      EXPECT_LE(out.taken[e], on_cores ? 0u : capacity[e]);
      for (std::uint32_t i = 0; i < out.taken[e]; ++i) expert_at[placement.first[e] + i] = e;
    }
    const std::uint32_t slices = on_cores ? 0 : placement.rows;
    for (const ExpertPlan::Group& group : out.plan.groups) {
      EXPECT_GE(group.first, slices);
      for (std::uint32_t i = 0; i < group.count; ++i) EXPECT_TRUE(expert_at.emplace(group.first + i, group.expert).second);
    }
    std::set<std::uint32_t> read;
    std::uint64_t dropped = 0;
    for (std::uint32_t row = 0; row < rows; ++row) {
      std::map<std::uint16_t, float> wanted;
      for (std::uint32_t i = 0; i < k; ++i) wanted[chosen[row].ids[i]] = chosen[row].weights[i];
      for (std::uint32_t i = 0; i < k; ++i) {
        const std::uint32_t place = out.plan.sources[row * k + i];
        const float weight = out.plan.weights[row * k + i];
        if (weight == 0) {
          ++dropped;
          continue;
        }
        EXPECT_TRUE(read.insert(place).second);
        EXPECT_EQ(out.plan.rows.at(place), row);
        EXPECT_EQ(wanted.at(expert_at.at(place)), weight);
      }
    }
    EXPECT_EQ(read.size(), expert_at.size());
    EXPECT_EQ(dropped, out.dropped);
    EXPECT_EQ(out.pairs, std::uint64_t{rows} * k);
    EXPECT_EQ(read.size() + dropped, out.pairs);
    EXPECT_EQ(out.padded + read.size() - out.on_cores, slices);
    if (overflow == Overflow::cpu || on_cores) {
      EXPECT_EQ(dropped, 0u);
    }
  }
}

TEST(ExpertAdmission, sources_of_a_row_ascend_by_expert) {
  const ExpertAdmission out = admit({{{1, 0}, {0.6f, 0.4f}}}, one_graph({2, 2}), Overflow::drop);
  EXPECT_EQ(out.plan.sources, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(out.plan.weights, (std::vector<float>{0.4f, 0.6f}));
}

}  // namespace
}  // namespace vitro
