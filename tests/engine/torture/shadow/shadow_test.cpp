// What the shadow model of bytes refuses, one law at a time, and what it lets pass.
#include "engine/torture/shadow/shadow.hpp"

#include <gmock/gmock.h>

#include "engine/base/rng.hpp"
#include "engine/torture/shadow/shadow_weights.hpp"

namespace vitro {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr FileId kFile{3};
constexpr Bytes kMatrix = kPageSize;  // 16 rows of 64 floats

struct Bench {
  Bench() {
    for (std::int16_t layer = 0; layer < 2; ++layer) {
      Weight weight;
      weight.name = layer == 0 ? "up of 0" : "up of 1";
      weight.role = Role::ffn_up;
      weight.layer = layer;
      weight.rows = 16, weight.columns = 64;
      weight.extent = {kFile, layer * kMatrix, kMatrix};
      weights.push_back(weight);
    }
    store = WeightStore(weights);
    shadow.know(store);
    shadow.request_begins();
  }
  ReadRequest read(std::int16_t layer) const {
    ReadRequest request;
    request.from = {kFile, layer * kMatrix, kMatrix};
    request.into = memory;
    return request;
  }
  void read_well(std::int16_t layer) { shadow.read_ends(shadow.read_begins(read(layer)), {{}, kMatrix}); }
  Chain product(std::int16_t layer, Slice slice = {}) const {
    KernelCall call;
    call.op = ops::Matmul{};
    call.layer = layer;
    call.slice = slice;
    View view;
    view.memory = memory;
    view.shape = {16, 64, 0};
    call.in = {view, {}};
    return {call};
  }
  void compute(std::int16_t layer, Slice slice = {}) { shadow.calls_end(shadow.calls_begin(product(layer, slice))); }
  std::vector<std::string> findings(bool well = true) {
    shadow.request_ends(well);
    return shadow.findings();
  }

  std::vector<Weight> weights;
  WeightStore store;
  Lease memory{std::make_shared<Block>(Block{.size = 4 * kMatrix, .id = 7})};
  Shadow shadow;
};

TEST(Shadow, lets_a_call_compute_with_what_was_read) {
  Bench bench;
  bench.read_well(1);
  bench.compute(1);
  EXPECT_THAT(bench.findings(), ElementsAre());
  EXPECT_EQ(bench.shadow.brought(Role::ffn_up), kMatrix);
  EXPECT_EQ(bench.shadow.counts().reads, 1u);
  EXPECT_EQ(bench.shadow.counts().operands, 16u) << "row by row";
}

TEST(Shadow, parts_of_a_joined_matrix_begin_where_one_of_its_matrices_does) {
  Weight joined;
  joined.rows = 16, joined.columns = 64;
  const auto is_refused = [&](Role role, std::uint32_t first, std::uint32_t count) {
    joined.role = role;
    KernelCall call;
    call.op = ops::Matmul{};
    View view;
    view.shape = {count, 64, 0};
    call.in = {view, {}};
    return !ShadowWeights::mismatch(call, {&joined, 0, first * Bytes{256}}, 0, 0).empty();
  };
  for (const auto& [first, count] : {std::pair{0u, 12u}, {12u, 2u}, {14u, 2u}}) EXPECT_FALSE(is_refused(Role::attn_qkv, first, count));
  for (const auto& [first, count] : {std::pair{2u, 12u}, {1u, 2u}, {13u, 2u}}) EXPECT_TRUE(is_refused(Role::attn_qkv, first, count));
  for (const std::uint32_t first : {0u, 8u}) EXPECT_FALSE(is_refused(Role::ffn_gate_up, first, 8));
  for (const std::uint32_t first : {1u, 4u}) EXPECT_TRUE(is_refused(Role::ffn_gate_up, first, 8));
  EXPECT_TRUE(is_refused(Role::ffn_up, 8, 8)) << "no joined matrix";
}

TEST(Shadow, refuses_what_was_never_read) {
  Bench bench;
  bench.compute(0);
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("into which nothing was read")));
}

// B A of an adapter's matrices is made by calls, and multiplied as weights are.
TEST(Shadow, lets_a_call_compute_with_a_product_of_an_adapters_matrices) {
  for (const Region region : {Region::activation, Region::adapter}) {
    Bench bench;
    bench.memory = Lease{std::make_shared<Block>(Block{.region = region, .size = 4 * kMatrix, .id = 7})};
    bench.compute(0);
    EXPECT_THAT(bench.findings(), ElementsAre());
  }
}

TEST(Shadow, refuses_a_block_whose_read_failed_until_it_is_read_again) {
  Bench bench;
  bench.shadow.read_ends(bench.shadow.read_begins(bench.read(0)), {{Code::io_error, "gone"}, 0});
  bench.compute(0, {3, 1});
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("the read of them failed")));
  EXPECT_EQ(bench.shadow.brought(Role::ffn_up), 0u);
  bench.read_well(0);
  bench.compute(0);
  EXPECT_EQ(bench.findings().size(), 1u);
}

TEST(Shadow, refuses_bytes_whose_read_has_not_landed) {
  Bench bench;
  const Shadow::Ticket read = bench.shadow.read_begins(bench.read(0));
  bench.compute(0, {0, 1});
  bench.shadow.read_ends(read, {{}, kMatrix});
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("has not landed")));
}

TEST(Shadow, refuses_pages_that_were_given_up) {
  Bench bench;
  bench.read_well(0);
  bench.shadow.gave_up(bench.memory, 0, kPageSize);
  bench.compute(0, {5, 1});
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("not read since they were given up")));
}

TEST(Shadow, refuses_another_layers_matrix_and_another_row) {
  Bench bench;
  bench.read_well(0);
  bench.compute(1, {2, 1});
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("layer 1 expert -1 row 2 computes with byte 512 of up of 0")));
  Bench other;
  ReadRequest late = other.read(0);
  late.from = {kFile, 256, 256};  // row 1, where row 0 belongs
  other.shadow.read_ends(other.shadow.read_begins(late), {{}, 256});
  other.compute(0, {0, 1});
  EXPECT_THAT(other.findings(), ElementsAre(HasSubstr("row 0 computes with byte 256")));
}

TEST(Shadow, refuses_a_slot_that_is_taken_twice_at_a_time) {
  Bench bench;
  const Shadow::Ticket first = bench.shadow.read_begins(bench.read(0)), second = bench.shadow.read_begins(bench.read(1));
  bench.shadow.read_ends(first, {{}, kMatrix});
  bench.shadow.read_ends(second, {{}, kMatrix});
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("is to land")));
}

TEST(Shadow, refuses_a_read_over_what_a_call_still_computes_with) {
  Bench bench;
  bench.read_well(0);
  const Shadow::Ticket call = bench.shadow.calls_begin(bench.product(0, {0, 1}));
  bench.read_well(1);
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("still computes")));
  bench.shadow.calls_end(call);
  bench.read_well(1);
  EXPECT_EQ(bench.findings().size(), 1u) << "it has ended";
}

TEST(Shadow, lets_a_request_that_fails_compute_with_anything) {
  Bench bench;
  bench.compute(0);
  EXPECT_THAT(bench.findings(false), ElementsAre());
}

TEST(Shadow, refuses_keys_and_values_that_were_not_written) {
  Bench bench;
  constexpr FileId kScratch{9};
  bench.shadow.made(kScratch);
  const auto written = [&](Status status) {
    WriteRequest request;
    request.to = {kScratch, 0, 512};
    request.from = bench.memory;
    bench.shadow.write_ends(bench.shadow.write_begins(request), {status, status.ok() ? 512u : 0u});
  };
  ReadRequest back;
  back.from = {kScratch, 0, 512};
  back.into = bench.memory;
  written({});
  bench.shadow.read_ends(bench.shadow.read_begins(back), {{}, 512});
  EXPECT_THAT(bench.findings(), ElementsAre());
  EXPECT_EQ(bench.shadow.asked_kv(), 512u);
  EXPECT_EQ(bench.shadow.written_kv(), 512u);
  written({Code::no_space, "full"});
  bench.shadow.read_ends(bench.shadow.read_begins(back), {{}, 512});
  EXPECT_THAT(bench.findings(), ElementsAre(HasSubstr("brings what was not written there")));
}

TEST(ShadowBytes, are_what_a_list_of_bytes_would_say) {
  constexpr Bytes kSize = 64;
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    ShadowBytes bytes;
    std::vector<Holds> plain(kSize);
    for (int i = 0; i < 12; ++i) {
      const Bytes begin = rng.below(kSize), end = begin + rng.below(kSize - begin + 1);
      const Holds holds{static_cast<Holds::Kind>(rng.below(4)), FileId(0), rng.below(1000)};
      bytes.put(begin, end, holds);
      for (Bytes at = begin; at < end; ++at) plain[at] = {holds.kind, holds.file, holds.from + (at - begin)};
    }
    const Bytes begin = rng.below(kSize), end = begin + rng.below(kSize - begin + 1);
    Bytes at = begin;
    for (const ShadowBytes::Run& run : bytes.runs(begin, end)) {
      ASSERT_EQ(run.begin, at);
      for (; at < run.end; ++at) {
        ASSERT_EQ(run.holds.kind, plain[at].kind);
        if (run.holds.kind == Holds::Kind::from_file) {
          ASSERT_EQ(run.holds.from + (at - run.begin), plain[at].from);
        }
      }
    }
    ASSERT_EQ(at, end);
  }
}

}  // namespace
}  // namespace vitro
