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

// Ways to carry a product out. 1e9 operations per second; a pass over 1000 x 100 weights of 4 bits loads 50 kB.
class FlowGpuWays : public testing::Test {
 protected:
  static constexpr std::string_view kWays =
      "{bandwidth: 50 GB/s, launch: 100 us, synchronise: 50 us, kernel_overhead: 2 us, macs_per_second_otherwise: 1e9, "
      "attention_macs_per_second: 2e9, elementwise_per_second: 1e9, conversions_per_second: 4e9, lookups_per_second: 1e9, "
      "macs_per_second: {float: {f16: 10e9}}, "
      "products: {operations_per_second: 1e9, unpack: {weight: 4, scale: 32, zero_point: 64}, image: {rows: 4, fetch: 10e9}, "
      "buffer: {rows: 4, fetch: 1e7}, convert: {rows: 32, fetch: 1e9, stored: 4}}}";

  // Microseconds of a product's arithmetic and loads.
  double time(std::string_view way, std::uint32_t rows, bool zero_points = false) {
    Work work;
    work.columns = 1000;
    work.depth = 100;
    work.rows = rows;
    work.macs = std::uint64_t{100'000} * rows;
    work.group = 32;
    work.weight_bits = 4;
    work.zero_points = zero_points;
    const KernelCost cost = bench_.model().kernel(way, "w4g32");
    EXPECT_TRUE(cost.from_table) << way;
    work.kernel = cost.id;
    return to_seconds(bench_.time_of(work) - 2 * kUs) * 1e6;
  }

  ModelBench<FlowGpu> bench_{kWays, {"macs_per_second", "products"}};
};

TEST_F(FlowGpuWays, a_pass_unpacks_every_weight_and_its_scale_and_serves_several_rows) {
  EXPECT_DOUBLE_EQ(time("image", 1), 100 + 100 * (4 + 1));
  EXPECT_DOUBLE_EQ(time("image", 4), 400 + 100 * (4 + 1));
  EXPECT_DOUBLE_EQ(time("image", 5), 500 + 2 * 100 * (4 + 1));
}

TEST_F(FlowGpuWays, zero_points_are_unpacked_once_per_group) { EXPECT_DOUBLE_EQ(time("image", 1, true), 100 + 100 * (4 + 1 + 2)); }

TEST_F(FlowGpuWays, images_and_buffers_are_loaded_at_rates_of_their_own) {
  EXPECT_DOUBLE_EQ(time("buffer", 1), 5000);  // 50 kB at 10 MB/s
  EXPECT_DOUBLE_EQ(time("buffer", 8), 10000);
  EXPECT_LT(time("image", 8), time("buffer", 8));
}

TEST_F(FlowGpuWays, a_converted_copy_is_unpacked_once_and_read_in_each_pass) {
  EXPECT_DOUBLE_EQ(time("convert", 1), 100 + 100 * (4 + 1));
  EXPECT_DOUBLE_EQ(time("convert", 33), 3300 + 100 * (4 + 1));  // unpacked once; image unpacks nine times
  EXPECT_LT(time("convert", 33), time("image", 33));
}

TEST_F(FlowGpuWays, a_converted_copy_is_written_to_memory_and_read_again) {
  ModelBench<FlowGpu> narrow("{bandwidth: 1 GB/s" + std::string(kWays.substr(kWays.find(','))), {"macs_per_second", "products"});
  Work work;
  work.columns = 1000;
  work.depth = 100;
  work.group = 32;
  work.weight_bits = 4;
  work.read_bytes = 50'000;
  work.kernel = narrow.model().kernel("image", "w4g32").id;
  const Picoseconds once = narrow.time_of(work);
  work.kernel = narrow.model().kernel("convert", "w4g32").id;
  EXPECT_EQ(once, (2 + 500) * kUs);                  // unpacking
  EXPECT_EQ(narrow.time_of(work), (2 + 850) * kUs);  // 400 kB there and back, and 50 kB of codes
}

TEST_F(FlowGpuWays, a_way_that_the_table_lacks_is_priced_by_its_rate) {
  EXPECT_FALSE(bench_.model().kernel("file", "w4g32").from_table);
  EXPECT_TRUE(bench_.model().kernel("float", "f16").from_table);
}

TEST_F(FlowGpuWays, a_way_without_its_numbers_is_refused_with_its_key) {
  const std::string broken = std::string(kWays.substr(0, kWays.find("image:"))) + "image: {rows: 4}}}";
  ModelBench<FlowGpu> bench(broken, {"macs_per_second", "products"});
  EXPECT_THROW(bench.model().kernel("image", "w4g32"), ConfigError);
}

TEST(FlowGpu, takes_chains_and_hands_over_at_a_price) {
  ModelBench<FlowGpu> bench(kRound, {"macs_per_second"});
  EXPECT_FALSE(bench.model().dispatch().static_graphs);
  EXPECT_EQ(bench.model().dispatch().wake_up, 100 * kUs);
  EXPECT_EQ(bench.model().dispatch().hand_back, 50 * kUs);
}

}  // namespace
}  // namespace vitro::hw
