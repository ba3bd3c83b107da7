#include "engine/app/plan/plan_profile.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

// Neuron 0 fires for every token, neuron 1 for every second one, neuron 2 never, neuron 3 for the first one alone.
Recording recording(std::uint32_t tokens) {
  Recording out;
  for (std::uint32_t t = 0; t < tokens; ++t) {
    FiredNeurons& fired = out.fired[{0, -1, {0, t}}];
    fired.cover(0, 4);
    fired.add({0});
    if (t % 2 == 0) fired.add({0, 1});
    if (t == 0) fired.add({0, 1, 3});
  }
  return out;
}

ReuseRequest request() {
  ReuseRequest request;
  request.neurons = 4;
  request.buckets = 4;
  request.tokens = 16;
  request.batches = {1};
  return request;
}

TEST(PlanProfile, a_use_is_counted_by_the_steps_since_the_one_before) {
  const std::vector<BatchReuse> found = reuse_of(recording(16), false, request());
  ASSERT_EQ(found.size(), 1u);
  const std::vector<ReuseBucket>& b = found[0].buckets;
  ASSERT_EQ(b.size(), 4u);
  EXPECT_DOUBLE_EQ(b[0].fired, 1);
  EXPECT_DOUBLE_EQ(b[0].reuse[1], 1);
  EXPECT_DOUBLE_EQ(b[1].fired, 0.5);
  EXPECT_DOUBLE_EQ(b[1].reuse[2], 0.5);
  EXPECT_DOUBLE_EQ(b[1].reuse[1], 0);
  EXPECT_DOUBLE_EQ(b[2].named, 0);
}

TEST(PlanProfile, a_window_holds_what_was_used_within_it) {
  const std::vector<ReuseBucket> b = reuse_of(recording(16), false, request())[0].buckets;
  EXPECT_DOUBLE_EQ(b[0].used_within[1], 1);
  EXPECT_DOUBLE_EQ(b[1].used_within[1], 0.5);
  EXPECT_DOUBLE_EQ(b[1].used_within[2], 1);
  EXPECT_DOUBLE_EQ(b[3].used_within[8], 0);
}

TEST(PlanProfile, without_predictors_every_gate_is_looked_at) {
  ReuseRequest all = request();
  all.predicts = false;
  all.keep_named = false;
  const std::vector<ReuseBucket> b = reuse_of(recording(16), false, all)[0].buckets;
  EXPECT_DOUBLE_EQ(b[2].named, 1);
  EXPECT_DOUBLE_EQ(b[2].reuse[0], 1);  // was never used
  EXPECT_DOUBLE_EQ(b[1].reuse[1], 0.5);
  EXPECT_DOUBLE_EQ(b[1].reuse[2], 0.5);
}

TEST(PlanProfile, sequences_of_a_batch_are_stretches_of_the_recording) {
  ReuseRequest two = request();
  two.batches = {2};
  const std::vector<BatchReuse> found = reuse_of(recording(32), false, two);
  EXPECT_DOUBLE_EQ(found[0].rows, 2);
  EXPECT_DOUBLE_EQ(found[0].buckets[1].fired, 0.5);  // both have it for the same tokens
  EXPECT_THROW(reuse_of(recording(7), false, two), ConfigError);
}

TEST(PlanProfile, a_pack_in_order_of_heat_moves_neurons) {
  Recording swapped;
  for (std::uint32_t t = 0; t < 16; ++t) {
    FiredNeurons& fired = swapped.fired[{0, -1, {0, t}}];
    fired.cover(0, 4);
    fired.add({3});
  }
  EXPECT_DOUBLE_EQ(reuse_of(swapped, false, request())[0].buckets[3].fired, 1);
  EXPECT_DOUBLE_EQ(reuse_of(swapped, true, request())[0].buckets[0].fired, 1);
}

TEST(PlanProfile, more_sequences_fire_more_neurons) {
  DrawProfile profile;
  profile.layers[0].fraction = 0.2;
  ReuseRequest drawn = request();
  drawn.neurons = 512;
  drawn.batches = {1, 4};
  drawn.tokens = 32;
  const std::vector<BatchReuse> found = reuse_of(profile, 0, drawn);
  const auto fired = [](const BatchReuse& batch) {
    double sum = 0;
    for (const ReuseBucket& bucket : batch.buckets) sum += bucket.fired;
    return sum / 512;
  };
  EXPECT_NEAR(fired(found[0]), 0.2, 0.03);
  EXPECT_NEAR(fired(found[1]), 1 - 0.8 * 0.8 * 0.8 * 0.8, 0.05);
}

TEST(PlanProfile, a_recording_is_counted_to_its_end) {
  Recording late = recording(400);
  for (std::uint32_t t = 300; t < 400; ++t) late.fired[{0, -1, {0, t}}].add({2});
  const std::vector<ReuseBucket> b = reuse_of(late, false, request())[0].buckets;
  EXPECT_DOUBLE_EQ(b[2].fired, 100.0 / 392) << "8 steps are history";
  EXPECT_EQ(b[2].used_within.size(), 9u);
  EXPECT_DOUBLE_EQ(b[0].mostly, 1);
  EXPECT_DOUBLE_EQ(b[1].mostly, 0) << "half is not most";
  EXPECT_DOUBLE_EQ(b[2].mostly, 0);
  ReuseRequest limited = request();
  limited.limits = {{0, 0}};
  EXPECT_EQ(reuse_of(late, false, limited)[0].missing[0].size(), 98u) << "every fourth of 392";
}

TEST(PlanProfile, ffns_apart_have_the_mean_that_they_have_together) {
  Recording two = recording(16);
  for (std::uint32_t t = 0; t < 16; ++t) {
    FiredNeurons& fired = two.fired[{1, -1, {0, t}}];
    fired.cover(0, 4);
    fired.add({2});
  }
  const std::vector<FfnReuse> apart = reuse_by_ffn(two, false, request());
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_EQ(apart[1].layer, 1);
  EXPECT_DOUBLE_EQ(apart[0].batches[0].buckets[2].fired, 0);
  EXPECT_DOUBLE_EQ(apart[1].batches[0].buckets[2].fired, 1);
  EXPECT_DOUBLE_EQ(reuse_of(two, false, request())[0].buckets[2].fired, 0.5);
}

TEST(PlanProfile, what_misses_is_counted_for_every_step) {
  ReuseRequest limited = request();
  limited.limits = {{0, 0}, {0, 1}, {1, 1}, {0, 2}, {2, 0}};
  const std::vector<std::vector<double>> missing = reuse_of(recording(16), false, limited)[0].missing;
  ASSERT_EQ(missing.size(), 5u);
  EXPECT_EQ(missing[0], (std::vector<double>{2, 1, 2, 1, 2, 1, 2, 1})) << "a cache that remembers nothing";
  EXPECT_EQ(missing[1], (std::vector<double>{1, 0, 1, 0, 1, 0, 1, 0})) << "neuron 1 was used two steps ago";
  EXPECT_EQ(missing[2], missing[1]) << "neuron 0 never misses anyway";
  EXPECT_EQ(missing[3], std::vector<double>(8, 0));
  EXPECT_EQ(missing[4], std::vector<double>(8, 0)) << "those that fire are hot";
}

// A perfect predictor names what fires: each miss is read to the end. Where half of what it names stays silent, half of the misses are, and
// others are completed later, once for each time that they came.
TEST(PlanProfile, what_fires_after_it_came_half_is_counted_where_it_fires) {
  ReuseRequest limited = request();
  limited.limits = {{0, 0}, {0, 1}, {1, 1}};
  const BatchReuse perfect = reuse_of(recording(16), false, limited)[0];
  EXPECT_EQ(perfect.completed, perfect.missing);

  DrawProfile profile;
  profile.layers[0].fraction = 0.2;
  profile.persistence = 0.9;
  profile.predictor.precision = 0.5;
  ReuseRequest drawn = request();
  drawn.neurons = 512;
  drawn.batches = {1};
  drawn.tokens = 64;
  drawn.limits = {{0, 0}, {0, 4}, {0, 64}};
  const BatchReuse found = reuse_of(profile, 0, drawn)[0];
  const auto share = [&](std::size_t limit) {
    const auto sum = [](const std::vector<double>& steps) { return std::accumulate(steps.begin(), steps.end(), 0.0); };
    return sum(found.completed[limit]) / sum(found.missing[limit]);
  };
  EXPECT_NEAR(share(0), 0.5, 0.06) << "everything misses each time";
  EXPECT_GT(share(1), 0.2);
  EXPECT_GT(share(2), share(0)) << "what stays for long fires at last";
  for (std::size_t step = 0; step < found.missing[2].size(); ++step) EXPECT_LE(found.missing[2][step], found.missing[0][step]);
}

ReuseRequest of_experts(std::uint32_t tokens) {
  ReuseRequest drawn = request();
  drawn.neurons = 64;
  drawn.buckets = 1;
  drawn.tokens = tokens;
  drawn.experts = 8;
  drawn.experts_used = 2;
  return drawn;
}

TEST(PlanProfile, each_token_uses_its_share_of_the_experts) {
  EXPECT_DOUBLE_EQ(reuse_of(DrawProfile{}, 0, of_experts(64))[0].rows, 0.25) << "two of eight, whichever they are";
  ReuseRequest batch = of_experts(64);
  batch.batches = {4};
  EXPECT_DOUBLE_EQ(reuse_of(DrawProfile{}, 0, batch)[0].rows, 1);
}

// Every neuron fires whenever its expert is used, so a use is as long ago as the expert's last one.
TEST(PlanProfile, an_expert_is_away_as_long_as_the_router_leaves_it_out) {
  DrawProfile profile;
  profile.layers[0].fraction = 1;
  const auto at_once = [&](double persistence) {
    profile.expert_persistence = persistence;
    const ReuseBucket bucket = reuse_of(profile, 0, of_experts(2000))[0].buckets[0];
    return bucket.reuse[1] / bucket.named_blocks;
  };
  EXPECT_NEAR(at_once(0), 0.25, 0.03) << "without memory: two of eight";
  EXPECT_GT(at_once(0.95), 0.7);
}

TEST(PlanProfile, experts_of_a_layer_miss_in_one_step) {
  DrawProfile profile;
  profile.layers[0].fraction = 1;
  ReuseRequest limited = of_experts(64);
  limited.limits = {{0, 0}, {0, 32}};
  const std::vector<std::vector<double>> missing = reuse_of(profile, 0, limited)[0].missing;
  EXPECT_EQ(missing[0], std::vector<double>(32, 128)) << "all neurons of two experts";
  for (const double step : missing[1]) EXPECT_TRUE(step == 0 || step == 64 || step == 128) << step;
}

}  // namespace
}  // namespace vitro
