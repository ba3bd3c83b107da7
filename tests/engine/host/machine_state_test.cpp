#include "engine/host/machine_state.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace vitro {
namespace {

namespace fs = std::filesystem;

// A /sys of two CPUs and two thermal zones.
class MachineStateTest : public ::testing::Test {
 protected:
  MachineStateTest() : root_(fs::temp_directory_path() / ("vitro-state-" + std::to_string(::getpid()))) {
    for (int cpu = 0; cpu < 2; ++cpu) {
      put(cpu_file(cpu, "cpuinfo_max_freq"), "3000000");
      put(cpu_file(cpu, "scaling_max_freq"), "3000000");
      put(cpu_file(cpu, "scaling_cur_freq"), cpu == 0 ? "2900000" : "400000");
    }
    put("class/thermal/thermal_zone0/type", "cpu-big");
    put("class/thermal/thermal_zone0/temp", "61500");
    put("class/thermal/thermal_zone1/type", "cpu-big");
    put("class/thermal/thermal_zone1/temp", "70250");
    put("class/thermal/cooling_device0/type", "fan");
  }
  ~MachineStateTest() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  static std::string cpu_file(int cpu, const std::string& name) {
    return "devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/" + name;
  }
  MachineStates states() const { return {read_top_clocks(root_.string(), {0, 1}), {read_state(root_.string(), {0, 1})}}; }

  fs::path root_;
};

TEST_F(MachineStateTest, reads_clocks_caps_and_the_hottest_zone_of_a_type) {
  const MachineStates all = states();
  const MachineState& state = all.samples.front();
  EXPECT_EQ(all.top.at(1), 3'000'000u);
  EXPECT_EQ(state.clock.at(0), 2'900'000u);
  EXPECT_EQ(state.cap.at(1), 3'000'000u);
  ASSERT_EQ(state.celsius.size(), 1u);
  EXPECT_DOUBLE_EQ(state.celsius.at("cpu-big"), 70.25);
}

TEST_F(MachineStateTest, an_idle_core_is_not_throttled) { EXPECT_EQ(states().throttled(), ""); }

TEST_F(MachineStateTest, a_lowered_cap_is_throttling) {
  put(cpu_file(1, "scaling_max_freq"), "2000000");
  EXPECT_EQ(states().throttled(), "cpu1 was capped at 2.00 of 3.00 GHz");
}

TEST_F(MachineStateTest, what_is_hidden_is_left_out) {
  const MachineState state = read_state((root_ / "nowhere").string(), {0, 1});
  EXPECT_TRUE(state.clock.empty());
  EXPECT_TRUE(state.celsius.empty());
}

TEST_F(MachineStateTest, a_sampler_looks_at_both_ends) {
  StateSampler sampler(root_.string(), Picoseconds(std::chrono::hours(1)));
  const MachineStates& all = sampler.stop();
  EXPECT_EQ(all.samples.size(), 2u);
  EXPECT_EQ(&sampler.stop(), &all);
  EXPECT_EQ(all.samples.size(), 2u);
}

}  // namespace
}  // namespace vitro
