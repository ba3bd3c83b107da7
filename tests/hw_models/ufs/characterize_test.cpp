#include "hw_models/ufs/characterize.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hw_models/ufs/fidelity_pair.hpp"
#include "hw_models/ufs/figures.hpp"
#include "hw_models/ufs/probe.hpp"
#include "tests/effort.hpp"
#include "tests/hw_models/ufs/device.hpp"
#include "tests/source_path.hpp"

namespace vitro::hw {
namespace {

constexpr double kTolerance = 0.05;

class Preset : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Preset, testing::Values("ufs2_1", "ufs3_1", "ufs4_0", "nvme"), [](const auto& info) { return info.param; });

double quantity(const std::string& text, const std::string& key) {
  const bool time = text.ends_with("us"), rate = text.ends_with("/s"), bytes = text.ends_with("KiB");
  const Dimension dimension = time ? Dimension::time : rate ? Dimension::bandwidth : bytes ? Dimension::bytes : Dimension::none;
  double value = -1;
  EXPECT_TRUE(parse_quantity(text, dimension, value)) << key << ": " << text;
  return value;
}

// What is committed is what the twin gives today.
TEST_P(Preset, flow_constants_are_those_of_the_twin) {
  const Node device = preset(GetParam(), "flow");
  for (const DerivedParameter& parameter : derive_flow_parameters(device)) {
    const Node* committed = device.find(parameter.key);
    ASSERT_NE(committed, nullptr) << parameter.key;
    EXPECT_EQ(committed->find("kind")->text(), "derived") << parameter.key;
    const double value = quantity(committed->find("value")->text(), parameter.key), derived = quantity(parameter.value, parameter.key);
    EXPECT_NEAR(value, derived, 0.002 * derived + 1e-12) << parameter.key;
  }
}

double difference(const StorageFidelityRow& row) { return row.flow / row.detailed - 1; }

TEST_P(Preset, twins_agree_on_reads_and_writes_of_all_sizes_ranges_depths_and_cores) {
  const Node device = preset(GetParam(), "flow");
  std::size_t rows = 0, number = std::string_view(GetParam()).front() == 'n' ? 0 : GetParam()[3] - '0';  // of the generation of UFS
  for (const std::string& name : storage_fidelity_cases()) {
    if (name == "published") continue;  // figures_test.cpp, for the phone that they were measured on
    if (number++ % test::all_or_few(1, 3) != 0) continue;  // few: each of the presets takes every third, beginning with another one
    for (const StorageFidelityRow& row : storage_fidelity(device, name)) {
      EXPECT_LT(std::abs(difference(row)), kTolerance) << GetParam() << " " << row.id << ": " << row.flow << " for " << row.detailed;
      ++rows;
    }
  }
  if (!test::few_cases()) {
    EXPECT_EQ(rows, 2u * 6 * 4 * 3 * 3 + 3 * 2);
  }
  EXPECT_GT(rows, 2u * 6 * 4 * 3 * 3 / 4);
}

// Where map fetches and data crowd four dies.
TEST(Twins, part_without_busy_dies_or_crossing_channels) {
  for (const char* change : {"media_dies: 64", "media_bandwidth: 100 GB/s"}) {
    const Node flow = preset("ufs2_1", "flow", change), detailed = preset("ufs2_1", "detailed");
    const StorageProbe probe{false, false, 64 * KiB, 512 * MiB, 32, {kBigCore}, 250, 500};
    EXPECT_GT(run(flow, probe).bytes_per_second, (1 + 2 * kTolerance) * run(detailed, probe).bytes_per_second) << change;
  }
}

// The two copies of a device's storage, one to compose and one to read, do not drift apart.
TEST(Devices, have_the_storage_of_their_preset) {
  for (const auto& [device, storage] : {std::pair("oneplus12", "ufs4_0"), {"pc_nvme", "nvme"}}) {
    const Node tree = load_yaml(test::source_path("configs/devices/" + std::string(device) + ".yaml"));
    EXPECT_EQ(tree.find("ufs")->to_json(), load_yaml(test::source_path("configs/storage/" + std::string(storage) + ".yaml")).to_json());
  }
}

}  // namespace
}  // namespace vitro::hw
