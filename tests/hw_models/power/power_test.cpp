#include "hw_models/power/power.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vitro::hw {
namespace {

using testing::HasSubstr;

FlowPower read(const std::string& more) {
  const Node node = parse_yaml("{base: 1 W, dram_byte: 100 pJ/B, flash_byte: 200 pJ/B" + more + "}", "t.yaml");
  Reader reader(node, "power");
  const FlowPower power(reader);
  reader.finish();
  return power;
}

TEST(FlowPower, a_unit_draws_static_power_always_and_dynamic_power_when_busy) {
  const FlowPower power = read(", active_watts: {big: 2}, idle_watts: {big: 0.25}");
  EXPECT_DOUBLE_EQ(power.draw("big", 1).idle, 0.25);
  EXPECT_DOUBLE_EQ(power.draw("big", 1).busy, 2.25);
  EXPECT_DOUBLE_EQ(power.draw("little", 1).busy, 0);  // a class that the file does not name
}

// At half the clock the voltage is 0.6 + 0.4 / 2 = 0.8 of the full one.
TEST(FlowPower, dynamic_power_follows_f_v_squared_and_leakage_v) {
  const FlowPower power = read(", voltage_floor: 60%, active_watts: {big: 2}, idle_watts: {big: 0.25}");
  const PowerDraw half = power.draw("big", 0.5);
  EXPECT_DOUBLE_EQ(half.idle, 0.25 * 0.8);
  EXPECT_DOUBLE_EQ(half.busy, 0.25 * 0.8 + 2 * 0.5 * 0.8 * 0.8);
}

TEST(FlowPower, with_a_fixed_voltage_the_energy_of_a_piece_of_work_does_not_depend_on_the_clock) {
  const FlowPower fixed = read(", voltage_floor: 100%, active_watts: {big: 2}");
  EXPECT_DOUBLE_EQ(fixed.draw("big", 0.5).busy / 0.5, fixed.draw("big", 1).busy);
  const FlowPower scaled = read(", voltage_floor: 50%, active_watts: {big: 2}");
  EXPECT_LT(scaled.draw("big", 0.5).busy / 0.5, scaled.draw("big", 1).busy);
}

TEST(FlowPower, a_unit_that_waits_draws_a_share_of_its_dynamic_power) {
  const FlowPower power = read(", voltage_floor: 60%, active_watts: {big: 2, npu: 4}, idle_watts: {big: 0.25}, stalled_share: {big: 0.25}");
  EXPECT_DOUBLE_EQ(power.draw("big", 1).stalled, 0.25 + 0.25 * 2);
  EXPECT_DOUBLE_EQ(power.draw("big", 0.5).stalled, 0.25 * 0.8 + 0.25 * 2 * 0.5 * 0.8 * 0.8);
  EXPECT_DOUBLE_EQ(power.draw("npu", 1).stalled, 4);  // a class that the table does not name draws the same
}

TEST(FlowPower, bytes_cost_by_medium_and_direction) {
  const FlowPower power = read(", dram_write_byte: 150 pJ/B, flash_write_byte: 1000 pJ/B, active_watts: {big: 2}");
  EXPECT_NEAR(power.dram_joules(1e6, 0), 100e-6, 1e-15);
  EXPECT_NEAR(power.dram_joules(1e6, 1e6), 150e-6, 1e-15);
  EXPECT_NEAR(power.flash_joules(1e6, 0), 200e-6, 1e-15);
  EXPECT_NEAR(power.flash_joules(3e6, 1e6), 2 * 200e-6 + 1000e-6, 1e-15);
}

TEST(FlowPower, refuses_what_can_not_be) {
  const auto message = [](const std::string& more) {
    try {
      read(more);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(""), HasSubstr("active_watts"));
  EXPECT_THAT(message(", active_watts: {big: 2}, voltage_floor: 120%"), HasSubstr("t.yaml:1: power.voltage_floor"));
  EXPECT_THAT(message(", active_watts: {big: 2}, stalled_share: {big: 1.5}"), HasSubstr("t.yaml:1: power.stalled_share: of big is 1.5"));
  const auto thermal = [&](const std::string& keys) { return message(", active_watts: {big: 2}, thermal: {" + keys + "}"); };
  EXPECT_THAT(thermal("trip: 40 degC, capacity_j_per_k: 5, clock_steps: {a: 0.5}"), HasSubstr("power.thermal.resistance_k_per_w"));
  EXPECT_THAT(thermal("trip: 20 degC, resistance_k_per_w: 5, capacity_j_per_k: 5, clock_steps: {a: 0.5}"), HasSubstr("ambient"));
  EXPECT_THAT(thermal("trip: 40 degC, resistance_k_per_w: 5, capacity_j_per_k: 5, clock_steps: {a: 1.5}"), HasSubstr("clock_steps"));
}

}  // namespace
}  // namespace vitro::hw
