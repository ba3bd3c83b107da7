#include "hw_models/power/load_governor.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace vitro::hw {
namespace {

LoadGovernor governor(const std::string& more = "") {
  const Node node = parse_yaml("{lowest: {big: 0.2, mid: 0.3}" + more + "}", "g.yaml");
  Reader reader(node, "governor");
  const Params params = LoadGovernor::read(reader);
  reader.finish();
  return LoadGovernor(params);
}

std::string refusal(const std::string& text) {
  try {
    const Node node = parse_yaml(text, "g.yaml");
    Reader reader(node, "governor");
    LoadGovernor::read(reader);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(LoadGovernor, a_load_is_halved_in_32_periods_of_waiting) {
  const LoadGovernor law = governor();
  EXPECT_EQ(law.period(), from_seconds(1024e-6));
  double load = 1;
  for (int period = 1; period <= 96; ++period) {
    load = law.load_after(load, 0, 1);
    EXPECT_NEAR(load, std::exp2(-period / 32.0), 1e-6);
  }
}

TEST(LoadGovernor, the_clock_is_a_quarter_more_than_the_load_within_its_bounds) {
  const LoadGovernor law = governor();
  EXPECT_DOUBLE_EQ(law.clock_share("big", 0.4), 0.5);
  EXPECT_DOUBLE_EQ(law.clock_share("big", 0.9), 1);
  EXPECT_DOUBLE_EQ(law.clock_share("big", 0.01), 0.2);
  EXPECT_DOUBLE_EQ(law.clock_share("mid", 0.01), 0.3);
  EXPECT_TRUE(law.governs("mid"));
  EXPECT_FALSE(law.governs("npu"));
}

// At a lower clock the same work takes longer: a core that is always busy has the load of its clock, and comes back to the highest.
TEST(LoadGovernor, a_core_that_is_always_busy_reaches_the_highest_clock) {
  const LoadGovernor law = governor();
  double load = 0, clock = law.clock_share("big", 0);
  for (int period = 0; period < 1000; ++period) {
    load = law.load_after(load, 1, clock);
    const double next = law.clock_share("big", load);
    EXPECT_GE(next, clock);
    clock = next;
  }
  EXPECT_DOUBLE_EQ(clock, 1);
}

TEST(LoadGovernor, what_makes_no_sense_is_refused) {
  EXPECT_NE(refusal("{lowest: {big: 0}}").find("g.yaml:1: governor.lowest.big: is no share"), std::string::npos);
  EXPECT_NE(refusal("{lowest: {big: 0.2}, period: 0 us}").find("period"), std::string::npos);
  EXPECT_NE(refusal("{lowest: {big: 0.2}, decay: 100%}").find("decay"), std::string::npos);
  EXPECT_NE(refusal("{decay: 50%}").find("lowest"), std::string::npos);
}

}  // namespace
}  // namespace vitro::hw
