#include "traces/profile_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "traces/draw.hpp"

namespace vitro {
namespace {

StatisticsRequest of(std::uint32_t neurons, std::uint32_t tokens = 200) {
  StatisticsRequest request;
  request.neurons = neurons;
  request.tokens = tokens;
  return request;
}

// With equal probabilities everything follows from laws: 4096 neurons, so a share's standard error is below 0.008.
TEST(ProfileStatistics, of_equal_neurons_follow_from_the_law) {
  DrawProfile profile;
  profile.layers = {{0.1, 0, {}}};
  profile.persistence = 0.8;
  profile.predictor = {0.9, 0.8};
  const ProfileStatistics found = profile_statistics(profile, of(4096));
  EXPECT_NEAR(found.fraction, 0.1, 0.003);
  EXPECT_NEAR(found.repeated, 0.1 + 0.9 * 0.64 * 7 / 8, 0.01);
  EXPECT_NEAR(found.recall, 0.9, 0.01);
  EXPECT_NEAR(found.coactivation, 0.8, 0.01);
  EXPECT_NEAR(found.named, 0.9 * found.fraction / 0.8, 0.002);
  EXPECT_NEAR(found.cold_coactivation, 0.1, 0.01) << "neurons know nothing of each other";
  for (const ProfileStatistics::Batch& batch : found.batches) {
    const double any = 1 - std::pow(0.9, batch.sequences);
    EXPECT_NEAR(batch.firing, any, 0.025) << batch.sequences;
    EXPECT_EQ(batch.hot, any >= 0.5 ? 1 : 0) << batch.sequences;
  }
  for (const ProfileStatistics::Curve& point : found.curve) {
    EXPECT_NEAR(point.probability, 0.1, 1e-9);
    EXPECT_NEAR(point.firings, point.neurons, 0.001);
  }
}

// Two of eight without memory: 1 - 6/8 5/7 of the tokens share one, an eighth the first (Jiang et al. 2024, table 5).
TEST(ProfileStatistics, experts_come_back_by_chance_or_as_they_persist) {
  DrawProfile profile;
  profile.stretch = 32;
  const auto chosen = [&](double persistence) {
    profile.expert_persistence = persistence;
    return expert_statistics(profile, 1, 3, 8, 2, 4000);
  };
  EXPECT_NEAR(chosen(0).shared, 1 - 15.0 / 28, 0.03);
  EXPECT_NEAR(chosen(0).same_first, 0.125, 0.02);
  // Where each score is the same for both tokens with the chance 0.3 and 0.8, 70.0 and 97.2 % of them share an expert.
  EXPECT_NEAR(chosen(std::sqrt(0.3 * 32 / 31)).shared, 0.700, 0.03);
  EXPECT_NEAR(chosen(std::sqrt(0.8 * 32 / 31)).shared, 0.972, 0.015);
  EXPECT_GT(chosen(0.9).same_first, chosen(0.5).same_first);
}

// PowerInfer-2, section 2.2: highly activated are under 1 % of the neurons at batch 1, and about 75 % at batch 32. Read as
// "fires with a chance of a half", a curve states both; docs/guide/traces.md says what else that fixes.
TEST(ProfileStatistics, a_curve_gives_the_hot_shares_that_it_states) {
  const double half_of_32 = 1 - std::pow(0.5, 1.0 / 32);
  DrawProfile profile;
  profile.layers[0].curve = {{0.008, 0.5}, {0.75, half_of_32 * (1 + 1e-9)}, {1, half_of_32 / 4}};
  const ProfileStatistics found = profile_statistics(profile, of(14336, 2));
  EXPECT_NEAR(found.batches.front().hot, 0.008, 0.0005);
  ASSERT_EQ(found.batches[5].sequences, 32u);
  EXPECT_NEAR(found.batches[5].hot, 0.75, 0.001);
  EXPECT_LT(found.cold_coactivation, 0.2) << "section 4.2";
}

TEST(ProfileStatistics, a_cache_of_the_hottest_hits_as_often_as_they_fire_and_persistence_helps) {
  DrawProfile profile;
  profile.layers = {{0.1, 0.8, {}}};
  profile.ordered = true;
  const ProfileStatistics without = profile_statistics(profile, of(2048, 400));
  profile.persistence = 0.9;
  profile.stretch = 32;
  const ProfileStatistics with = profile_statistics(profile, of(2048, 400));
  ASSERT_EQ(without.caches.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GT(with.caches[i].hits, without.caches[i].hits);
  }
  EXPECT_LT(without.caches[0].hits, without.caches[1].hits);
  EXPECT_LT(without.caches[1].hits, without.caches[2].hits);
  EXPECT_LE(without.caches[1].hits, without.curve.back().firings) << "half cached: no better than the hottest half without memory";
}

}  // namespace
}  // namespace vitro
