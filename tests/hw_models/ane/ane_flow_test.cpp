#include "hw_models/ane/ane_flow.hpp"

#include <gmock/gmock.h>

#include "tests/hw_models/model_bench.hpp"

namespace vitro::hw {
namespace {

using testing::HasSubstr;

// 1e9 multiply-adds per second on 4 cores, weights at 1 GB/s, nothing else costs anything.
constexpr std::string_view kRound =
    "{cores: 4, tflops: 0.002, bandwidth: 10 GB/s, stream_bandwidth: 1 GB/s, graph_limit: 1 GB, elementwise_per_second: 1e9, "
    "attention_rows: 8, call_overhead: 0 us}";

Picoseconds time_of(const Work& work, std::string_view device = kRound) { return ModelBench<FlowAne>(device).time_of(work); }

Work product(std::uint32_t rows, std::uint32_t columns, std::uint32_t depth) {
  Work work;
  work.rows = rows;
  work.columns = columns;
  work.depth = depth;
  work.macs = std::uint64_t{rows} * columns * depth;
  return work;
}

TEST(FlowAne, weights_stream_first_and_then_the_cores_compute) {
  Work work = product(16, 64, 64);
  EXPECT_EQ(time_of(work), Picoseconds(65'536'000));
  work.read_bytes = work.weight_bytes = 8192;
  EXPECT_EQ(time_of(work), Picoseconds(65'536'000 + 8'192'000));
}

TEST(FlowAne, streaming_is_waiting_and_the_rest_is_computing) {
  ModelBench<FlowAne> bench(
      "{cores: 4, tflops: 0.002, bandwidth: 10 GB/s, stream_bandwidth: 1 GB/s, graph_limit: 1 GB, call_overhead: 1 us, "
      "switch_activity: 0.5}");
  Work work = product(16, 64, 64);
  work.read_bytes = work.weight_bytes = 8192;
  EXPECT_EQ(bench.time_of(work), Picoseconds(1'000'000 + 8'192'000 + 65'536'000));
  EXPECT_EQ(bench.model().computed(), Picoseconds(1'000'000 + 65'536'000));
  EXPECT_EQ(bench.model().dispatch().switch_activity, 0.5);
}

TEST(FlowAne, every_dimension_is_padded_to_the_multiple) {
  const Picoseconds whole = time_of(product(16, 64, 64));
  EXPECT_EQ(time_of(product(1, 64, 64)), whole);
  EXPECT_EQ(time_of(product(16, 49, 64)), whole);
  EXPECT_EQ(time_of(product(16, 64, 49)), whole);
  EXPECT_EQ(time_of(product(17, 64, 64)), 2 * whole);
}

TEST(FlowAne, a_narrow_product_leaves_cores_idle) {
  EXPECT_EQ(time_of(product(16, 16, 64)), time_of(product(16, 64, 64)));
  EXPECT_EQ(time_of(product(16, 80, 64)), time_of(product(16, 128, 64)));
}

TEST(FlowAne, attention_shares_a_pass_over_keys_among_the_rows_of_a_sequence) {
  Work work;
  work.rows = work.sequence_rows = 32;
  work.macs = 1;
  work.read_bytes = 32'000'000;
  EXPECT_EQ(time_of(work), 400 * kUs);  // 8 rows to a tile, 10 GB/s
  work.sequence_rows = 1;
  EXPECT_EQ(time_of(work), 3200 * kUs);
}

TEST(FlowAne, softmax_has_a_rate_of_its_own) {
  Work work;
  work.macs = 1000;
  const Picoseconds without = time_of(work);
  work.elementwise = 5000;
  EXPECT_EQ(time_of(work) - without, 5 * kUs);
}

TEST(FlowAne, refuses_what_it_lacks_and_what_is_not_float16) {
  ModelBench<FlowAne> bench(kRound);
  for (const char* op : {"rms_norm", "embed", "gather", "route", "expert_sum", "sample"}) {
    EXPECT_THAT(bench.model().objection(op, "f32"), HasSubstr("belongs on the CPU")) << op;
  }
  for (const char* op : {"glu", "add", "rope", "reduce", "copy", "kv_append"}) EXPECT_EQ(bench.model().objection(op, "f32"), "") << op;
  for (const char* op : {"matmul", "attention"}) {
    EXPECT_EQ(bench.model().objection(op, "f16"), "");
    EXPECT_THAT(bench.model().objection(op, "f32"), HasSubstr("expected f16"));
    EXPECT_THAT(bench.model().objection(op, "q4_0"), HasSubstr("q4_0"));
    EXPECT_THAT(bench.model().objection(op, "q8_0"), HasSubstr("q8_0"));
  }
}

// Of 4096 weights: 8192 bytes in float16, 4352 in int8 with their scales.
Picoseconds time_of_weights(std::string_view format, Bytes bytes, std::string_view rate) {
  ModelBench<FlowAne> bench(
      "{cores: 4, tflops: 0.002, bandwidth: 10 GB/s, stream_bandwidth: 1 GB/s, graph_limit: 1 GB, call_overhead: 0 us, "
      "dequantise_per_second: " + std::string(rate) + "}");
  EXPECT_EQ(bench.model().objection("matmul", format), "");
  EXPECT_NE(bench.model().objection("attention", "q8_0"), "");
  Work work = product(16, 64, 64);
  work.kernel = bench.model().kernel("float", format).id;
  work.read_bytes = work.weight_bytes = bytes;
  return bench.time_of(work);
}

TEST(FlowAne, weights_in_int8_take_half_of_the_stream_and_become_float16_at_a_rate) {
  const Picoseconds computing(65'536'000);
  EXPECT_EQ(time_of_weights("f16", 8192, "1e9"), computing + Picoseconds(8'192'000));
  EXPECT_EQ(time_of_weights("q8_0", 4352, "1e9"), computing + Picoseconds(4'352'000));    // it keeps up with the stream
  EXPECT_EQ(time_of_weights("q8_0", 4352, "0.5e9"), computing + Picoseconds(8'192'000));  // and here it does not
  EXPECT_EQ(time_of_weights("f16", 8192, "0.5e9"), computing + Picoseconds(8'192'000));
}

}  // namespace
}  // namespace vitro::hw
