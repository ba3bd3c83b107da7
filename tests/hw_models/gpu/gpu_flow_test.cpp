#include "hw_models/gpu/gpu_flow.hpp"

#include "tests/hw_models/model_bench.hpp"

namespace vitro::hw {
namespace {

constexpr std::string_view kRound =
    "{bandwidth: 5 GB/s, launch: 100 us, synchronise: 50 us, kernel_overhead: 2 us, macs_per_second_otherwise: 1e9, "
    "attention_macs_per_second: 2e9, elementwise_per_second: 1e9, conversions_per_second: 4e9, lookups_per_second: 1e9, "
    "attention_rows: 4, macs_per_second: {float: {f16: 10e9}}}";

Work product(std::uint64_t macs, Bytes bytes) {
  Work work;
  work.columns = work.depth = 1;
  work.macs = macs;
  work.read_bytes = bytes;
  return work;
}

TEST(FlowGpu, a_kernel_takes_the_longer_of_arithmetic_and_its_port) {
  ModelBench<FlowGpu> bench(kRound, {"macs_per_second"});
  const std::uint16_t other = bench.model().kernel("float", "q4_0").id;
  Work work = product(10'000, 20'000);
  work.kernel = other;
  EXPECT_EQ(bench.time_of(work), (2 + 10) * kUs);
  work.read_bytes = 100'000;
  EXPECT_EQ(bench.time_of(work), (2 + 20) * kUs);
}

TEST(FlowGpu, it_computes_for_its_arithmetic_and_waits_else) {
  ModelBench<FlowGpu> bench(kRound, {"macs_per_second"});
  Work work = product(10'000, 100'000);
  work.kernel = bench.model().kernel("float", "q4_0").id;
  EXPECT_EQ(bench.time_of(work), (2 + 20) * kUs);
  EXPECT_EQ(bench.model().computed(), (2 + 10) * kUs);
}

TEST(FlowGpu, the_rate_belongs_to_the_kernel_and_its_format) {
  ModelBench<FlowGpu> bench(kRound, {"macs_per_second"});
  const KernelCost f16 = bench.model().kernel("float", "f16"), q4 = bench.model().kernel("float", "q4_0");
  EXPECT_TRUE(f16.from_table);
  EXPECT_FALSE(q4.from_table);
  Work work = product(100'000, 0);
  work.kernel = f16.id;
  EXPECT_EQ(bench.time_of(work), (2 + 10) * kUs);
  work.kernel = q4.id;
  EXPECT_EQ(bench.time_of(work), (2 + 100) * kUs);
}

TEST(FlowGpu, unpacking_is_part_of_a_product_and_work_of_its_own_in_a_copy) {
  ModelBench<FlowGpu> bench(kRound, {"macs_per_second"});
  Work work = product(10'000, 0);
  work.kernel = bench.model().kernel("float", "q4_0").id;
  work.conversions = 40'000;
  EXPECT_EQ(bench.time_of(work), (2 + 10) * kUs);
  work.macs = 0;
  EXPECT_EQ(bench.time_of(work), (2 + 10) * kUs);
  work.conversions = 80'000;
  EXPECT_EQ(bench.time_of(work), (2 + 20) * kUs);
}

TEST(FlowGpu, fused_attention_reads_keys_once_per_tile_of_rows) {
  ModelBench<FlowGpu> bench(kRound, {"macs_per_second"});
  Work work;
  work.rows = work.sequence_rows = 8;
  work.macs = 20'000;
  work.elementwise = 1'000'000;  // in the kernel's rate
  EXPECT_EQ(bench.time_of(work), (2 + 10) * kUs);
  work.read_bytes = 400'000;
  EXPECT_EQ(bench.time_of(work), (2 + 20) * kUs);
  work.sequence_rows = 1;  // eight sequences share nothing
  EXPECT_EQ(bench.time_of(work), (2 + 80) * kUs);
}

TEST(FlowGpu, takes_chains_and_hands_over_at_a_price) {
  ModelBench<FlowGpu> bench(kRound, {"macs_per_second"});
  EXPECT_FALSE(bench.model().dispatch().static_graphs);
  EXPECT_EQ(bench.model().dispatch().wake_up, 100 * kUs);
  EXPECT_EQ(bench.model().dispatch().hand_back, 50 * kUs);
}

}  // namespace
}  // namespace vitro::hw
