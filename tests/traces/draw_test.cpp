#include "traces/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "draw_calls.hpp"
#include "engine/base/rng.hpp"

namespace vitro {
namespace {

// The one law that matters: an answer depends on what is asked, not on when, how often or in which pieces.
TEST(DrawFunction, answers_do_not_depend_on_order_slicing_or_batching) {
  constexpr std::uint32_t kNeurons = 1000;
  DrawFunction reference(skewed(), 42);
  std::map<std::pair<int, int>, Ids> whole;
  for (int layer = 0; layer < 3; ++layer) {
    for (std::uint32_t position = 0; position < 20; ++position) {
      whole[{layer, position}] = fired(reference, glu_call(kNeurons, static_cast<std::int16_t>(layer), {{0, position}}));
    }
  }
  Rng rng(5);
  DrawFunction other(skewed(), 42);
  for (int trial = 0; trial < 300; ++trial) {
    const int layer = static_cast<int>(rng.below(3));
    const auto position = static_cast<std::uint32_t>(rng.below(20));
    const Ids& expected = whole[{layer, position}];
    // Cut anywhere, asked back to front, as the second row of a batch.
    Ids got;
    for (std::uint32_t end = kNeurons; end > 0;) {
      const auto first = static_cast<std::uint32_t>(rng.below(end));
      const KernelCall call = glu_call(kNeurons, static_cast<std::int16_t>(layer), {{7, 3}, {0, position}}, {first, end - first});
      const Ids part = fired(other, call, 1);
      got.insert(got.begin(), part.begin(), part.end());
      end = first;
    }
    ASSERT_EQ(got, expected) << "layer " << layer << " position " << position;
  }
}

TEST(DrawFunction, asking_for_some_rows_gives_the_whole_answer_cut_to_them) {
  DrawFunction function(skewed(), 1);
  KernelCall call = glu_call(500, 0, {{0, 9}});
  const Ids whole = fired(function, call);
  auto rows = std::make_shared<Ids>();
  for (std::uint32_t n = 1; n < 500; n += 3) rows->push_back(n);
  call.rows = rows;
  Ids expected;
  std::set_intersection(whole.begin(), whole.end(), rows->begin(), rows->end(), std::back_inserter(expected));
  EXPECT_EQ(fired(function, call), expected);
}

// 2000 positions: the standard error of the spread is below 2 % of it, that of the mean 0.3 %.
TEST(DrawFunction, activity_varies_by_position_and_is_that_of_all_layers) {
  DrawProfile profile = skewed();
  profile.persistence = 0.9;
  EXPECT_EQ(DrawFunction(profile, 1).activity(0, {0, 5}), 1) << "unless it is asked for";
  profile.activity_spread = 0.15;
  DrawFunction function(profile, 1);
  double sum = 0, squares = 0;
  for (std::uint32_t position = 0; position < 2000; ++position) {
    const double factor = function.activity(0, {0, position});
    sum += factor;
    squares += factor * factor;
  }
  EXPECT_NEAR(sum / 2000, 1, 0.012);
  EXPECT_NEAR(std::sqrt(squares / 2000 - sum * sum / 4e6), 0.15, 0.01);
  EXPECT_EQ(function.activity(1, {0, 5}), function.activity(0, {0, 5}));
  EXPECT_NE(function.activity(0, {1, 5}), function.activity(0, {0, 5}));
  EXPECT_NE(function.activity(0, {0, 6}), function.activity(0, {0, 5}));
  EXPECT_EQ(function.activity(0, {0, 5}), DrawFunction(profile, 1).activity(0, {0, 5}));
  // Numbers of firing neurons of both layers follow the factor, guesses included.
  profile.predictor = {0.98, 0.8};
  DrawFunction guessing(profile, 1);
  for (const std::int16_t layer : {0, 1}) {
    const std::vector<double> p = guessing.firing_probability(layer, -1, 4000);
    double fires = 0, named = 0, expected = 0;
    for (std::uint32_t position = 0; position < 200; ++position) {
      const auto count = [&](const KernelCall& call) { return static_cast<double>(fired(guessing, call).size()); };
      fires += count(glu_call(4000, layer, {{0, position}}));
      named += count(select_call(4000, layer, {{0, position}}, SelectOf::predictor));
      for (const double each : p) expected += std::min(1.0, function.activity(0, {0, position}) * each);
    }
    EXPECT_NEAR(fires / expected, 1, 0.02) << layer;
    EXPECT_NEAR(named / fires, 0.98 / 0.8, 0.03) << layer;
  }
}

TEST(DrawFunction, ordered_neurons_stand_hottest_first) {
  DrawProfile profile = skewed();
  const std::vector<double> drawn = DrawFunction(profile, 3).firing_probability(0, 1, 500);
  profile.ordered = true;
  std::vector<double> ordered = DrawFunction(profile, 3).firing_probability(0, 1, 500);
  EXPECT_TRUE(std::is_sorted(ordered.rbegin(), ordered.rend()));
  EXPECT_FALSE(std::is_sorted(drawn.rbegin(), drawn.rend()));
  std::vector<double> same = drawn;
  std::sort(same.rbegin(), same.rend());
  EXPECT_EQ(same, ordered);
}

// A share of the neurons has a popularity of its own for each task, the others do not notice.
TEST(DrawFunction, a_task_reorders_its_share_of_the_neurons) {
  const auto popularity = [](std::string task, double share, bool ordered) {
    DrawProfile profile = skewed();
    profile.ordered = ordered;
    profile.task = std::move(task);
    profile.task_share = share;
    return DrawFunction(profile, 3).firing_probability(0, -1, 4000);
  };
  for (const bool ordered : {false, true}) {
    const std::vector<double> base = popularity("", 0.3, ordered), math = popularity("math", 0.3, ordered);
    const std::vector<double> code = popularity("code", 0.3, ordered);
    std::size_t moved = 0, both = 0, either = 0;
    for (std::size_t n = 0; n < base.size(); ++n) {
      moved += math[n] != base[n];
      both += math[n] != base[n] && code[n] != base[n];
      either += math[n] != base[n] || code[n] != base[n];
    }
    EXPECT_NEAR(static_cast<double>(moved) / 4000, 0.3, 0.03);
    EXPECT_GT(static_cast<double>(both), 0.95 * static_cast<double>(either)) << "tasks speak to the same neurons";
    EXPECT_NE(math, code);
    EXPECT_EQ(popularity("math", 0, ordered), base);
    std::vector<double> same = math, all = base;
    std::sort(same.begin(), same.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(same, all) << "the curve is that of the layer";
  }
}

TEST(DrawFunction, seed_layer_expert_sequence_and_position_all_matter) {
  DrawFunction function(skewed(), 1), reseeded(skewed(), 2);
  const KernelCall call = glu_call(500, 0, {{0, 9}});
  KernelCall expert = call;
  expert.expert = 3;
  const Ids base = fired(function, call);
  EXPECT_NE(base, fired(reseeded, call));
  EXPECT_NE(base, fired(function, glu_call(500, 2, {{0, 9}})));
  EXPECT_NE(base, fired(function, glu_call(500, 0, {{1, 9}})));
  EXPECT_NE(base, fired(function, glu_call(500, 0, {{0, 10}})));
  EXPECT_NE(base, fired(function, expert));
}

TEST(DrawFunction, workers_may_ask_at_once) {
  DrawFunction shared(skewed(), 9), alone(skewed(), 9);
  std::vector<Ids> got(8);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 8; ++i) {
    threads.emplace_back([&shared, &got, i] { got[i] = fired(shared, glu_call(2000, static_cast<std::int16_t>(i % 2), {{0, i}})); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_EQ(got[i], fired(alone, glu_call(2000, static_cast<std::int16_t>(i % 2), {{0, i}})));
}

TEST(DrawFunction, the_mean_of_the_probabilities_is_the_firing_fraction) {
  for (const double fraction : {0.0, 0.02, 0.1, 0.5, 0.97, 1.0}) {
    for (const double skew : {0.0, 0.5, 1.5}) {
      DrawProfile profile;
      profile.layers = {{fraction, skew}};
      const std::vector<double> p = DrawFunction(profile, 3).firing_probability(0, -1, 4096);
      EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0) / 4096, fraction, 1e-9) << fraction << " " << skew;
      EXPECT_LE(*std::max_element(p.begin(), p.end()), 1.0);
    }
  }
}

// 200 tokens of 4096 neurons: the standard error of a neuron's frequency is below 0.036, of the mean below 0.0004.
TEST(DrawFunction, neurons_fire_as_often_as_they_should) {
  for (const double persistence : {0.0, 0.6}) {
    DrawProfile profile;
    profile.layers = {{0.15, 0.6}};
    profile.persistence = persistence;
    DrawFunction function(profile, 11);
    const std::vector<double> p = function.firing_probability(0, -1, 4096);
    std::vector<int> count(4096);
    for (std::uint32_t position = 0; position < 200; ++position) {
      for (const std::uint32_t id : fired(function, glu_call(4096, 0, {{0, position}}))) ++count[id];
    }
    double total = 0, hot = 0;
    for (std::uint32_t n = 0; n < 4096; ++n) {
      total += count[n];
      if (p[n] > 0.5) hot += (count[n] / 200.0 - p[n]);
    }
    EXPECT_NEAR(total / (200.0 * 4096), 0.15, 0.004);
    EXPECT_NEAR(hot / 4096, 0, 0.004);
  }
}

TEST(DrawFunction, persistence_makes_neighbours_alike_and_strangers_not) {
  const auto common = [](double persistence, std::uint32_t distance) {
    DrawProfile profile;
    profile.layers = {{0.1, 0.0}};
    profile.persistence = persistence;
    DrawFunction function(profile, 4);
    double shared = 0, all = 0;
    for (std::uint32_t position = 0; position < 20; ++position) {
      const Ids a = fired(function, glu_call(4096, 0, {{0, position}})), b = fired(function, glu_call(4096, 0, {{0, position + distance}}));
      Ids both;
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
      shared += static_cast<double>(both.size());
      all += static_cast<double>(a.size());
    }
    return shared / all;
  };
  // Independent: 0.1. With persistence q over stretches of 8, neighbours repeat with q * q * 7/8.
  EXPECT_NEAR(common(0, 1), 0.1, 0.02);
  EXPECT_NEAR(common(0.8, 1), 0.1 + 0.9 * 0.64 * 7 / 8, 0.03);
  EXPECT_NEAR(common(0.8, 100), 0.1, 0.02);
}

TEST(DrawFunction, experts_are_distinct_by_descending_weight_and_follow_popularity) {
  DrawFunction function(skewed(), 6);
  const std::vector<double> popularity = function.expert_popularity(2, 8);
  std::vector<int> first(8);
  constexpr std::uint32_t kTokens = 4000;
  for (std::uint32_t position = 0; position < kTokens; ++position) {
    const auto choices = std::get<std::vector<ExpertChoice>>(function.execute(call_over(ops::Route{2, true}, 8, {{0, position}})));
    ASSERT_EQ(choices.size(), 1u);
    const ExpertChoice& choice = choices[0];
    ASSERT_EQ(choice.ids.size(), 2u);
    ASSERT_NE(choice.ids[0], choice.ids[1]);
    ASSERT_GE(choice.weights[0], choice.weights[1]);
    ASSERT_NEAR(choice.weights[0] + choice.weights[1], 1, 1e-6);
    ++first[choice.ids[0]];
  }
  for (std::size_t e = 0; e < 8; ++e) EXPECT_NEAR(first[e] / static_cast<double>(kTokens), popularity[e], 0.05);
}

TEST(DrawFunction, weights_that_are_not_renormalised_leave_a_share_to_the_others) {
  DrawFunction function(skewed(), 6);
  const auto choices = std::get<std::vector<ExpertChoice>>(function.execute(call_over(ops::Route{2, false}, 8, {{0, 5}})));
  EXPECT_LT(choices[0].weights[0] + choices[0].weights[1], 1);
}

// Asked a layer ahead, a router names each chosen expert with the profile's probability, and others that it did not choose.
TEST(DrawFunction, foresight_is_the_share_of_chosen_experts_that_are_named_ahead) {
  for (const double foresight : {0.0, 0.48, 1.0}) {
    DrawProfile profile = skewed();
    profile.expert_foresight = foresight;
    DrawFunction function(profile, 4);
    std::uint32_t named = 0, chosen = 0;
    for (std::uint32_t position = 0; position < 3000; ++position) {
      KernelCall call = call_over(ops::Route{3, true}, 16, {{0, position}});
      const auto truth = std::get<std::vector<ExpertChoice>>(function.execute(call)).front().ids;
      call.expert = kForeseen;
      const auto guess = std::get<std::vector<ExpertChoice>>(function.execute(call)).front().ids;
      ASSERT_EQ(std::set<std::uint16_t>(guess.begin(), guess.end()).size(), 3u);
      for (const std::uint16_t expert : truth) named += std::ranges::count(guess, expert) > 0 ? 1 : 0;
      chosen += 3;
    }
    EXPECT_NEAR(static_cast<double>(named) / chosen, foresight, 0.03);
  }
}

TEST(DrawFunction, tokens_lie_in_the_vocabulary_and_repeat_when_asked_again) {
  DrawFunction function(skewed(), 6);
  const KernelCall call = call_over(ops::Sample{}, 100, {{0, 1}, {0, 2}, {1, 1}});
  const TokenChoice choice = std::get<TokenChoice>(function.execute(call));
  ASSERT_EQ(choice.tokens.size(), 3u);
  for (const std::int32_t token : choice.tokens) EXPECT_TRUE(token >= 0 && token < 100);
  EXPECT_EQ(std::get<TokenChoice>(function.execute(call)).tokens, choice.tokens);
}

TEST(DrawFunction, profiles_and_calls_out_of_range_are_named) {
  DrawProfile profile;
  profile.layers = {{1.5, 0}};
  EXPECT_THROW(DrawFunction(profile, 1), ConfigError);
  profile.layers = {};
  EXPECT_THROW(DrawFunction(profile, 1), ConfigError);
  profile = {};
  profile.predictor.precision = 0;
  EXPECT_THROW(DrawFunction(profile, 1), ConfigError);
  profile = {};
  profile.stretch = 0;
  EXPECT_THROW(DrawFunction(profile, 1), ConfigError);
  DrawFunction function({}, 1);
  EXPECT_THROW(function.execute(call_over(ops::Route{9, true}, 8, {{0, 0}})), RunError);
  EXPECT_THROW(function.execute(call_over(ops::Sample{}, 0, {{0, 0}})), RunError);
}

}  // namespace
}  // namespace vitro
