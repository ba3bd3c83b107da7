#include "engine/host/cpu_topology.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace vitro {
namespace {

namespace fs = std::filesystem;

class Topology : public testing::Test {
 protected:
  Topology() : root_(fs::temp_directory_path() / ("vitro-topology-" + std::to_string(::getpid()))) { fs::create_directories(root_); }
  ~Topology() override { fs::remove_all(root_); }

  void write(int cpu, const std::string& file, const std::string& text) {
    const fs::path path = root_ / ("cpu" + std::to_string(cpu)) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::vector<Core> read(const std::vector<int>& cpus) { return read_topology(root_.string(), cpus); }

  fs::path root_;
};

TEST_F(Topology, orders_a_phone_fastest_first_and_names_the_classes) {
  const int capacity[] = {300, 300, 800, 800, 800, 1024};
  for (int cpu = 0; cpu < 6; ++cpu) write(cpu, "cpu_capacity", std::to_string(capacity[cpu]) + "\n");
  const std::vector<Core> expected = {{5, 1024, "big"}, {2, 800, "mid"},    {3, 800, "mid"},
                                      {4, 800, "mid"},  {0, 300, "little"}, {1, 300, "little"}};
  EXPECT_EQ(read({0, 1, 2, 3, 4, 5}), expected);
}

TEST_F(Topology, two_speeds_are_big_and_little) {
  write(0, "cpufreq/cpuinfo_max_freq", "2000000");
  write(1, "cpufreq/cpuinfo_max_freq", "3300000");
  const std::vector<Core> expected = {{1, 3300000, "big"}, {0, 2000000, "little"}};
  EXPECT_EQ(read({0, 1}), expected);
}

TEST_F(Topology, a_machine_that_hides_one_speed_counts_as_uniform) {
  write(0, "cpu_capacity", "1024");
  write(1, "cpu_capacity", "not a number");
  const std::vector<Core> expected = {{0, 1, "big"}, {1, 1, "big"}, {7, 1, "big"}};
  EXPECT_EQ(read({0, 1, 7}), expected);
}

TEST_F(Topology, only_allowed_cpus_are_listed) {
  for (int cpu = 0; cpu < 4; ++cpu) write(cpu, "cpu_capacity", std::to_string(100 * (cpu + 1)));
  const std::vector<Core> expected = {{2, 300, "big"}, {1, 200, "little"}};
  EXPECT_EQ(read({1, 2}), expected);
  EXPECT_FALSE(allowed_cpus().empty());
}

}  // namespace
}  // namespace vitro
