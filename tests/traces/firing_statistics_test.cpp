#include "traces/firing_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/check.hpp"
#include "traces/draw.hpp"

namespace vitro {
namespace {

FiredNeurons fired(std::vector<std::uint32_t> ids) {
  FiredNeurons out;
  out.cover(0, 10);
  out.add(ids);
  return out;
}

TEST(FiringStatistics, counts_shares_and_repeats_computed_by_hand) {
  Recording recording;
  recording.fired[{0, -1, {0, 3}}] = fired({1, 2, 3});
  recording.fired[{0, -1, {0, 4}}] = fired({2, 3, 4, 5});
  recording.fired[{0, -1, {0, 6}}] = fired({2});  // no neighbour
  recording.fired[{1, -1, {0, 3}}] = fired({});
  const std::vector<LayerFiring> layers = firing_statistics(recording, 10);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].tokens, 3u);
  EXPECT_DOUBLE_EQ(layers[0].active, 8.0 / 30);
  EXPECT_DOUBLE_EQ(layers[0].hot_share, 5.0 / 8) << "neurons 2 and 3 of ten";
  EXPECT_DOUBLE_EQ(layers[0].repeated, 2.0 / 4);
  EXPECT_EQ(layers[1].active, 0);
  const std::vector<std::uint32_t> order = hottest_first(layers[0]);
  EXPECT_EQ((std::vector<std::uint32_t>{order[0], order[1], order[2]}), (std::vector<std::uint32_t>{2, 3, 1}));
}

// Three tokens of two layers: 3 + 1, 1 + 1 and 2 + 4 firing neurons.
TEST(FiringStatistics, how_tokens_differ_computed_by_hand) {
  Recording recording;
  recording.fired[{0, -1, {0, 0}}] = fired({1, 2, 3});
  recording.fired[{0, -1, {0, 1}}] = fired({2});
  recording.fired[{0, -1, {0, 2}}] = fired({2, 4});
  recording.fired[{1, -1, {0, 0}}] = fired({0});
  recording.fired[{1, -1, {0, 1}}] = fired({1});
  recording.fired[{1, -1, {0, 2}}] = fired({1, 2, 3, 4});
  const TokenFiring found = token_statistics(recording);
  EXPECT_EQ(found.tokens, 3u);
  EXPECT_NEAR(found.spread, std::sqrt(8.0 / 3) / 4, 1e-12) << "of 4, 2 and 6";
  EXPECT_NEAR(found.layers_alike, 0, 1e-12) << "of 3, 1, 2 and 1, 1, 4";
  EXPECT_NEAR(found.neighbours_alike, 0, 1e-12);
  EXPECT_NEAR(found.layer_spread, (2 * std::sqrt(2.0 / 3) / 2 + 2 * std::sqrt(2.0) / 2) / 4, 1e-12);
  EXPECT_NEAR(found.shared, 0, 1e-6);
  EXPECT_NEAR(found.lasting, -1, 1e-12) << "4, 2 before 2, 6";
  EXPECT_NEAR(found.fresh, (1.0 / 2 + 4.0 / 6) / 2, 1e-12);
  EXPECT_NEAR(found.fresh_spread, 1.5 / 2.5, 1e-12) << "of 1 and 4";
  EXPECT_EQ(token_statistics(Recording{}).spread, 0);
}

TEST(FiringStatistics, a_drawn_profile_comes_back) {
  DrawProfile profile;
  profile.layers = {{0.12, 0.7}};
  DrawFunction draw(profile, 5);
  Recording recording;
  KernelCall call;
  call.op = ops::Glu{.report_active = true};
  call.layer = 0;
  call.in.emplace_back();
  call.in[0].shape = {1, 4000, 0};
  for (std::uint32_t position = 0; position < 400; ++position) {
    call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{0, position});
    FiredNeurons& entry = recording.fired[{0, -1, {0, position}}];
    entry.cover(0, 4000);
    entry.add(*std::get<ActiveSet>(draw.execute(call)).rows[0]);
  }
  const LayerFiring firing = firing_statistics(recording, 4000).at(0);
  EXPECT_NEAR(firing.active, 0.12, 0.002);
  EXPECT_NEAR(fitted_skew(firing), 0.7, 0.03);
}

TokenFiring statistics_of_600_tokens(const DrawProfile& profile, std::int16_t layers) {
  DrawFunction draw(profile, 6);
  Recording recording;
  KernelCall call;
  call.op = ops::Glu{.report_active = true};
  call.in.emplace_back();
  call.in[0].shape = {1, 2000, 0};
  for (std::uint32_t position = 0; position < 600; ++position) {
    call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{0, position});
    for (call.layer = 0; call.layer < layers; ++call.layer) {
      FiredNeurons& entry = recording.fired[{call.layer, -1, {0, position}}];
      entry.cover(0, 2000);
      entry.add(*std::get<ActiveSet>(draw.execute(call)).rows[0]);
    }
  }
  return token_statistics(recording);
}

// The standard error of a spread is 3 % of it.
TEST(FiringStatistics, the_activity_of_a_drawn_profile_comes_back) {
  DrawProfile profile;
  profile.layers = {{0.1, 0.5}, {0.3, 0}, {0.2, 0.3}};
  profile.activity_spread = 0.2;
  const TokenFiring found = statistics_of_600_tokens(profile, 3);
  EXPECT_NEAR(found.shared, 0.2, 0.025);
  EXPECT_GT(found.layers_alike, 0.8);
  EXPECT_NEAR(found.lasting, 0, 0.15);
}

// Of n layers with the correlation c between neighbours, the mean varies by sqrt((n + 2 sum (n - d) c^d) / n^2) times as much as one.
TEST(FiringStatistics, layers_vary_by_themselves_as_the_profile_says) {
  DrawProfile profile;
  profile.layers = {{0.3, 0}};
  profile.activity_spread = 0.3;
  profile.layer_correlation = 0.4;
  const TokenFiring found = statistics_of_600_tokens(profile, 8);
  EXPECT_NEAR(found.layer_spread, 0.3, 0.02);
  EXPECT_NEAR(found.neighbours_alike, 0.4, 0.05);
  double sum = 8;
  for (int d = 1; d < 8; ++d) sum += 2 * (8 - d) * std::pow(0.4, d);
  EXPECT_NEAR(found.spread, 0.3 * std::sqrt(sum) / 8, 0.015);
}

TEST(FiringStatistics, a_neuron_that_the_model_does_not_have_is_refused) {
  Recording recording;
  recording.fired[{0, -1, {0, 0}}] = fired({9});
  EXPECT_THROW(firing_statistics(recording, 9), ConfigError);
}

}  // namespace
}  // namespace vitro
