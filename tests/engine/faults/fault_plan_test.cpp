#include "engine/faults/fault_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace vitro {
namespace {

FaultPlan read(const std::string& json) { return read_faults(Reader(parse_json(json, "f.json"), "faults")); }

std::string error_of(const std::string& json) {
  try {
    read(json);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FaultPlan, a_file_states_each_fault) {
  const FaultPlan plan = read(R"({"seed": 7, "checksums": false, "entries": [
      {"fault": "latency", "at": 3, "count": 2, "delay": "15 us"}, {"fault": "unit_dies", "unit": "npu"},
      {"fault": "memory_pressure", "at": 1, "bytes": "1 MiB"}]})");
  const std::vector<Fault> expected{{FaultKind::latency, 3, 2, std::chrono::microseconds(15), 0, ""},
                                    {FaultKind::unit_dies, 0, kFromThenOn, Picoseconds(0), 0, "npu"},
                                    {FaultKind::memory_pressure, 1, 1, Picoseconds(0), MiB, ""}};
  EXPECT_EQ(plan, (FaultPlan{7, expected, false}));
}

TEST(FaultPlan, what_was_drawn_reads_back_the_same_from_its_file) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FaultDraw draw;
    draw.seed = seed, draw.faults = 20, draw.delay = std::chrono::milliseconds(3), draw.bytes = 64 * MiB;
    draw.among = {100, 10, 1000, 5, 50};
    draw.units = {"cpu0", "npu"};
    const FaultPlan plan = draw_faults(draw);
    ASSERT_EQ(plan.faults.size(), 20u);
    EXPECT_EQ(read(to_json(plan)), plan) << to_json(plan);
    EXPECT_EQ(draw_faults(draw), plan);
  }
}

TEST(FaultPlan, faults_are_drawn_among_the_operations_that_there_are) {
  FaultDraw draw;
  draw.faults = 200, draw.among = {10, 0, 3, 0, 0};
  for (const Fault& fault : draw_faults(draw).faults) {
    const FaultTarget target = target_of(fault.kind);
    ASSERT_TRUE(target == FaultTarget::read || target == FaultTarget::launch) << to_string(fault.kind);
    EXPECT_LT(fault.at, target == FaultTarget::read ? 10u : 3u);
  }
  draw.kinds = {FaultKind::no_space};
  EXPECT_TRUE(draw_faults(draw).faults.empty()) << "nothing is written";
}

TEST(FaultPlan, every_kind_is_drawn_and_has_a_name_of_its_own) {
  FaultDraw draw;
  draw.faults = 2000, draw.among = {9, 9, 9, 9, 9};
  std::vector<int> seen(kFaultKinds);
  for (const Fault& fault : draw_faults(draw).faults) ++seen[static_cast<std::size_t>(fault.kind)];
  EXPECT_EQ(std::ranges::count(seen, 0), 0);
  std::vector<std::string> names = fault_names();
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(FaultPlan, an_experiment_may_have_its_faults_drawn) {
  const FaultPlan plan = read(R"({"seed": 5, "draw": 30, "within": 40, "kinds": ["latency", "read_error"], "delay": "2 us"})");
  ASSERT_EQ(plan.faults.size(), 30u);
  for (const Fault& fault : plan.faults) {
    EXPECT_TRUE(fault.kind == FaultKind::latency || fault.kind == FaultKind::read_error);
    EXPECT_LT(fault.at, 40u);
    EXPECT_LE(fault.delay, std::chrono::microseconds(2));
  }
}

TEST(FaultPlan, what_is_no_fault_is_refused_with_its_key) {
  const std::string fire = error_of(R"({"entries": [{"fault": "fire"}]})");
  EXPECT_NE(fire.find("f.json:1: faults.entries"), std::string::npos) << fire;
  EXPECT_NE(error_of(R"({"entries": [{"fault": "latency", "delay": "3 MiB"}]})").find("delay"), std::string::npos);
  EXPECT_NE(error_of(R"({"draw": 3, "kinds": ["fire"]})").find("faults.kinds: expected a list of some of: read_error"), std::string::npos);
  EXPECT_NE(error_of(R"({})").find("entries"), std::string::npos);
}

}  // namespace
}  // namespace vitro
