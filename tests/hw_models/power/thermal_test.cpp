#include "hw_models/power/thermal.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace vitro::hw {
namespace {

// 10 K/W and 2 J/K: a time constant of 20 s, 25 degC outside.
Params params(const std::string& more = "trip: 1000 degC, clock_steps: {a: 0.5}", const std::string& step = "10 ms") {
  const Node node = parse_yaml("{resistance_k_per_w: 10, capacity_j_per_k: 2, step: " + step + ", " + more + "}", "t.yaml");
  Reader reader(node, "thermal");
  Params read = ThermalNode::read(reader);
  reader.finish();
  return read;
}

void advance(ThermalNode& node, double seconds, double watts) {
  for (int i = 0; i < std::lround(seconds * 100); ++i) node.advance(watts);
}

TEST(ThermalNode, a_step_of_power_is_answered_by_an_exponential) {
  ThermalNode node(params());
  double seconds = 0;
  for (const double more : {1.0, 4.0, 15.0, 20.0}) {
    advance(node, more, 3);
    seconds += more;
    EXPECT_NEAR(node.degrees(), 25 + 30 * (1 - std::exp(-seconds / 20)), 0.01) << seconds << " s";
  }
}

TEST(ThermalNode, settles_at_ambient_plus_resistance_times_power_and_cools_back) {
  ThermalNode node(params());
  advance(node, 400, 3);
  EXPECT_NEAR(node.degrees(), 55, 1e-3);
  advance(node, 20, 0);
  EXPECT_NEAR(node.degrees(), 25 + 30 * std::exp(-1.0), 0.01);
  EXPECT_NEAR(node.highest_degrees(), 55, 1e-3);
}

TEST(ThermalNode, is_stable_with_steps_longer_than_its_time_constant) {
  ThermalNode node(params("trip: 1000 degC, clock_steps: {a: 0.5}", "100 s"));
  for (int i = 0; i < 20; ++i) node.advance(3);
  EXPECT_NEAR(node.degrees(), 55, 1e-6);
}

TEST(ThermalNode, clocks_go_down_the_table_above_the_trip_point_and_up_again_below_it) {
  ThermalNode node(params("trip: 40 degC, hysteresis: 2 K, clock_steps: {a: 0.6, b: 0.8, c: 0.4}"));
  EXPECT_EQ(node.clock_share(), 1);
  while (node.degrees() <= 40) node.advance(3);
  EXPECT_EQ(node.clock_share(), 0.8);  // one entry per step, the fastest first
  node.advance(3);
  EXPECT_EQ(node.clock_share(), 0.6);
  advance(node, 1, 3);
  EXPECT_EQ(node.clock_share(), 0.4);  // the lowest
  while (node.degrees() >= 38) {
    EXPECT_EQ(node.clock_share(), 0.4);  // between the two points nothing moves
    node.advance(0);
  }
  EXPECT_EQ(node.clock_share(), 0.6);
  advance(node, 1, 0);
  EXPECT_FALSE(node.throttled());
}

// Power that follows the clock: the loop must rest between the points, or go round slowly, but not switch at every step.
TEST(ThermalNode, the_hysteresis_keeps_the_loop_from_switching_at_every_step) {
  const auto changes = [](const char* hysteresis) {
    ThermalNode node(params(std::string("trip: 40 degC, clock_steps: {a: 0.4}, hysteresis: ") + hysteresis));
    int count = 0;
    for (int i = 0; i < 10'000; ++i) {
      const double before = node.clock_share();
      node.advance(3 * before);
      count += node.clock_share() != before;
      EXPECT_LT(node.degrees(), 40.1);
    }
    return count;
  };
  EXPECT_LT(changes("2 K"), 100);
  EXPECT_GT(changes("0 K"), 1000);
}

}  // namespace
}  // namespace vitro::hw
