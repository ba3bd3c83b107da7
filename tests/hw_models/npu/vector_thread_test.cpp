#include "hw_models/npu/vector_thread.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

TEST(VectorThread, a_packet_holds_as_many_look_ups_as_the_unit_and_the_slots_allow) {
  const auto cycles = [](const std::string& changes) { return NpuBench(phone(changes)).lookup_cycles(1000); };
  EXPECT_DOUBLE_EQ(cycles(""), 0.5);
  EXPECT_DOUBLE_EQ(cycles("npu.lookups_per_packet: 4"), 0.25);
  EXPECT_DOUBLE_EQ(cycles("npu.lookups_per_packet: 8"), 0.25);  // four slots
  EXPECT_DOUBLE_EQ(cycles("npu.lookups_per_packet: 0.5"), 2);
}

TEST(VectorThread, a_gather_waits_for_the_bank_that_most_elements_want) {
  NpuBench bench(phone("npu.gather_packets: 24, npu.gather_conflict_packets: 4, npu.tcm_banks: 64"));
  const auto packets = [&](std::uint32_t stride) {
    std::vector<std::uint32_t> offsets(64);
    for (std::uint32_t i = 0; i < 64; ++i) offsets[i] = i * stride;
    VectorThread thread(bench.parts());
    thread.gather(offsets);
    return thread.cycles();
  };
  EXPECT_DOUBLE_EQ(packets(2), 24);
  EXPECT_DOUBLE_EQ(packets(4), 24 + 4);
  EXPECT_DOUBLE_EQ(packets(128), 24 + 63 * 4);
}

TEST(VectorThread, a_look_up_stands_for_the_activations_that_index_its_table) {
  EXPECT_EQ(madds_per_lookup({16, 16}), 4);
  EXPECT_EQ(madds_per_lookup({32, 8}), 5);
}

}  // namespace
}  // namespace vitro::hw
