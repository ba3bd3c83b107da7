#include "traces/read_flows.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

using Flows = std::vector<std::uint64_t>;

View view(std::uint64_t block, Bytes offset, std::array<std::uint32_t, 3> shape, Format format = Format::f32) {
  View made;
  made.memory = Lease(std::make_shared<Block>(Block{.size = MiB, .id = block}));
  made.offset = offset;
  made.shape = shape;
  made.format = format;
  return made;
}

KernelCall matmul(View weights, Slice slice = {}) {
  KernelCall call;
  call.op = ops::Matmul{};
  call.slice = slice;
  call.in = {std::move(weights), view(99, 0, {1, 64})};
  return call;
}

IndexList list(std::vector<std::uint32_t> values) { return std::make_shared<const std::vector<std::uint32_t>>(std::move(values)); }

TEST(ReadFlows, a_read_goes_to_the_first_kernel_that_reads_its_bytes_and_to_no_other) {
  ReadFlows flows;
  EXPECT_EQ(flows.arrived(1, 0, 4096), 1u);
  EXPECT_EQ(flows.arrived(1, 4096, 4096), 2u);
  EXPECT_EQ(flows.arrived(2, 0, 4096), 3u);
  const KernelCall half = matmul(view(1, 0, {32, 64}), {16, 16});  // rows of 256 bytes
  EXPECT_EQ(flows.taken(half), Flows({2}));
  EXPECT_EQ(flows.taken(half), Flows());
  EXPECT_EQ(flows.taken(matmul(view(1, 0, {32, 64}))), Flows({1}));
  EXPECT_EQ(flows.taken(matmul(view(3, 0, {32, 64}))), Flows());
  EXPECT_EQ(flows.taken(matmul(view(2, 4092, {1, 64}))), Flows({3})) << "one byte is enough";
}

TEST(ReadFlows, a_read_into_the_same_place_replaces_what_nobody_took) {
  ReadFlows flows;
  flows.arrived(1, 0, 8192);
  flows.arrived(1, 16384, 4096);
  EXPECT_EQ(flows.arrived(1, 4096, 4096), 3u) << "a part of the first";
  EXPECT_EQ(flows.taken(matmul(view(1, 0, {80, 64}))), Flows({2, 3}));
}

TEST(ReadFlows, rows_that_a_call_names_are_looked_up_where_they_lie) {
  ReadFlows flows;
  for (Bytes at = 0; at < 16; ++at) flows.arrived(1, at * 4096, 4096);
  KernelCall cached = matmul(view(1, 256, {16, 64}));
  cached.rows = list({3, 4});
  cached.row_offsets = list({5 * 64, 9 * 64});
  EXPECT_EQ(flows.taken(cached), Flows({6, 10}));
  KernelCall named = matmul(view(1, 0, {16, 1024}));
  named.rows = list({0, 1});
  EXPECT_EQ(flows.taken(named), Flows({1, 2}));
  KernelCall copy;
  copy.op = ops::Copy{};
  copy.in = {view(1, 0, {2, 16})};
  copy.rows = list({15 * 64, 2 * 64});
  copy.row_offsets = list({0, 1});
  EXPECT_EQ(flows.taken(copy), Flows({3, 16})) << "from, not to";
}

TEST(ReadFlows, memory_is_bounded_and_the_oldest_are_forgotten) {
  ReadFlows flows;
  for (Bytes at = 0; at < ReadFlows::kMost + 10; ++at) flows.arrived(1, at * 4096, 4096);
  EXPECT_EQ(flows.taken(matmul(view(1, 0, {160, 64}))), Flows()) << "the first ten";
  EXPECT_EQ(flows.taken(matmul(view(1, 10 * 4096, {16, 64}))), Flows({11}));
  for (int again = 0; again < 3; ++again) {  // one place over and over
    for (Bytes i = 0; i < ReadFlows::kMost; ++i) flows.arrived(2, 0, 4096);
  }
  EXPECT_EQ(flows.taken(matmul(view(2, 0, {16, 64}))).size(), 1u);
}

TEST(ReadFlows, blocks_that_nobody_reads_from_again_are_forgotten) {
  ReadFlows flows;
  for (std::uint64_t block = 1000; block < ReadFlows::kMost + 1010; ++block) flows.arrived(block, 0, 4096);
  EXPECT_EQ(flows.blocks(), ReadFlows::kMost);
  EXPECT_EQ(flows.taken(matmul(view(1010, 0, {16, 64}))), Flows({11}));
  EXPECT_EQ(flows.blocks(), ReadFlows::kMost - 1);
}

TEST(ReadFlows, all_are_forgotten_and_numbers_go_on) {
  ReadFlows flows;
  flows.arrived(1, 0, 4096);
  flows.forget_all();
  EXPECT_EQ(flows.taken(matmul(view(1, 0, {16, 64}))), Flows());
  EXPECT_EQ(flows.arrived(1, 0, 4096), 2u);
}

}  // namespace
}  // namespace vitro
