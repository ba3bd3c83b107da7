#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "draw_calls.hpp"
#include "traces/draw.hpp"

namespace vitro {
namespace {

TEST(DrawFunction, select_of_the_gate_gives_what_glu_gives) {
  DrawProfile errs = skewed();
  errs.predictor = {0.5, 0.5};
  DrawFunction function(errs, 42), plain(skewed(), 42);
  const std::vector<SeqPos> batch{{0, 3}, {5, 11}};
  for (const Slice slice : {Slice{}, Slice{100, 300}}) {
    KernelCall glu = glu_call(1000, 1, batch, slice), gate = select_call(1000, 1, batch, SelectOf::gate, slice);
    for (const bool some : {false, true}) {
      if (some) glu.rows = gate.rows = std::make_shared<const Ids>(Ids{101, 150, 151, 399});
      for (const std::size_t row : {0u, 1u}) {
        EXPECT_EQ(fired(function, gate, row), fired(plain, glu, row));
        EXPECT_EQ(fired(function, gate, row), fired(function, glu, row));
      }
    }
  }
}

TEST(DrawFunction, bits_have_all_that_is_active_whatever_the_call_asks_for) {
  DrawProfile errs = skewed();
  errs.predictor = {0.5, 0.5};
  DrawFunction function(errs, 42);
  const std::vector<SeqPos> batch{{0, 3}, {5, 11}};
  for (const SelectOf of : {SelectOf::predictor, SelectOf::gate}) {
    const auto all = std::get<ActiveSet>(function.execute(select_call(1000, 1, batch, of)));
    const auto some = std::get<ActiveSet>(function.execute(select_call(1000, 1, batch, of, {100, 300})));
    ASSERT_EQ(some.bits.size(), batch.size());
    for (std::size_t row = 0; row < batch.size(); ++row) {
      Ids named;
      for (std::uint32_t n = 0; n < 1000; ++n) {
        if ((*some.bits[row])[n / 64] >> n % 64 & 1) named.push_back(n);
      }
      EXPECT_EQ(named, *all.rows[row]);
    }
  }
}

TEST(DrawFunction, a_perfect_predictor_names_what_fires) {
  DrawFunction function(skewed(), 42);
  EXPECT_EQ(fired(function, select_call(1000, 0, {{0, 3}}, SelectOf::predictor)), fired(function, glu_call(1000, 0, {{0, 3}})));
}

// 60 tokens of 8192 neurons, 10 % firing: about 49,000 true neurons, so the standard errors are below 0.002.
TEST(DrawFunction, predictors_err_as_often_as_they_should_and_mostly_on_busy_neurons) {
  for (const auto& [recall, precision] : {std::pair{0.98, 0.8}, {0.7, 1.0}, {1.0, 0.4}}) {
    DrawProfile profile;
    profile.layers = {{0.1, 0.7}};
    profile.predictor = {recall, precision};
    DrawFunction function(profile, 8);
    const std::vector<double> p = function.firing_probability(0, -1, 8192);
    double truth = 0, named = 0, right = 0, alarms_of_busy = 0, busy = 0;
    for (std::uint32_t position = 0; position < 60; ++position) {
      const Ids fires = fired(function, glu_call(8192, 0, {{0, position}}));
      const Ids guess = fired(function, select_call(8192, 0, {{0, position}}, SelectOf::predictor));
      Ids both;
      std::set_intersection(fires.begin(), fires.end(), guess.begin(), guess.end(), std::back_inserter(both));
      truth += static_cast<double>(fires.size());
      named += static_cast<double>(guess.size());
      right += static_cast<double>(both.size());
      for (const std::uint32_t n : guess) alarms_of_busy += p[n] > 0.1 && !std::binary_search(fires.begin(), fires.end(), n);
    }
    for (const double each : p) busy += each > 0.1;
    EXPECT_NEAR(right / truth, recall, 0.01);
    EXPECT_NEAR(right / named, precision, 0.01);
    if (precision == 1) continue;
    EXPECT_GT(alarms_of_busy / (named - right), busy / 8192);
  }
}

// As for the truth: cut anywhere, asked back to front, in another batch, a guess is the same.
TEST(DrawFunction, guesses_do_not_depend_on_slicing_or_batching) {
  DrawProfile profile = skewed();
  profile.predictor = {0.9, 0.6};
  DrawFunction function(profile, 42), other(profile, 42);
  const Ids whole = fired(function, select_call(1000, 1, {{0, 7}}, SelectOf::predictor));
  Ids parts;
  for (std::uint32_t end = 1000; end > 0; end -= 250) {
    const Ids part = fired(other, select_call(1000, 1, {{3, 2}, {0, 7}}, SelectOf::predictor, {end - 250, 250}), 1);
    parts.insert(parts.begin(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
  EXPECT_NE(whole, fired(function, glu_call(1000, 1, {{0, 7}})));
  EXPECT_NE(whole, fired(function, select_call(1000, 1, {{0, 8}}, SelectOf::predictor)));
}

TEST(DrawFunction, false_alarms_persist_as_firing_does) {
  DrawProfile profile;
  profile.layers = {{0.1, 0.0}};
  profile.predictor = {1, 0.5};
  profile.persistence = 0.8;
  DrawFunction function(profile, 4);
  double shared = 0, all = 0;
  Ids before;
  for (std::uint32_t position = 0; position < 40; ++position) {
    const Ids fires = fired(function, glu_call(4096, 0, {{0, position}}));
    const Ids named = fired(function, select_call(4096, 0, {{0, position}}, SelectOf::predictor));
    Ids alarms, both;
    std::set_difference(named.begin(), named.end(), fires.begin(), fires.end(), std::back_inserter(alarms));
    std::set_intersection(before.begin(), before.end(), alarms.begin(), alarms.end(), std::back_inserter(both));
    shared += static_cast<double>(both.size());
    if (position > 0) all += static_cast<double>(alarms.size());
    before = alarms;
  }
  EXPECT_GT(shared / all, 0.4) << "without memory it is 0.1";
}

}  // namespace
}  // namespace vitro
