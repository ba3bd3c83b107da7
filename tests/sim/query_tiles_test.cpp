#include "sim/query_tiles.hpp"

#include <gtest/gtest.h>

#include "engine/kernels/bench_attention.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/contract.hpp"

namespace vitro::sim {
namespace {

constexpr std::uint32_t kHeads = 2, kGroup = 3, kDim = 16, kBlock = 32;  // the block of bench_attention()

struct Counted {
  WorkCounts before, after;
  SharedKeys shared;
};

Counted counted(const KernelCall& call) {
  Counted result{count(call), count(call), {}};
  result.shared = share_keys(call, kGroup, result.after);
  return result;
}

KernelCall prompt(std::uint32_t rows, std::uint32_t tokens, Format format = Format::f16) {
  return bench_attention({kHeads, kGroup, kDim, rows, tokens}, format);
}

Bytes pool_bytes(const KernelCall& call, std::uint64_t tokens) { return tokens * kHeads * kv_pair_bytes(call.in[1].format, kDim); }
Bytes spared(const Counted& c) { return c.before.read[0] - c.after.read[0]; }

TEST(QueryTiles, the_last_rows_of_a_prompt_read_keys_once_for_each_tile) {
  const KernelCall call = prompt(20, 128);  // tiles of 10 rows with 3 queries each: 30 of 32
  const Counted c = counted(call);
  std::uint64_t alone = 0;
  for (std::uint32_t seen = 109; seen <= 128; ++seen) alone += seen;
  EXPECT_EQ(spared(c), pool_bytes(call, alone - 118 - 128));
  EXPECT_EQ(c.shared.queries, 30u);
  EXPECT_EQ(c.shared.macs, 2u * kHeads * kGroup * kDim * 10 * (109 + 119));
  EXPECT_LT(c.shared.macs, c.after.macs);
  EXPECT_EQ(c.after.macs, c.before.macs);
  EXPECT_EQ(c.after.elementwise, c.before.elementwise);
  EXPECT_EQ(c.before.row_runs, 20u * 2 * kHeads * 4) << "four blocks of " << kBlock;
  EXPECT_EQ(c.after.row_runs, 2u * 2 * kHeads * 4);
}

TEST(QueryTiles, one_row_and_rows_of_other_sequences_share_nothing) {
  KernelCall call = prompt(4, 64);
  auto batch = std::make_shared<std::vector<SeqPos>>(*call.batch);
  for (std::uint32_t i = 0; i < batch->size(); ++i) (*batch)[i].sequence = i;
  call.batch = batch;
  for (const KernelCall& each : {prompt(1, 64), call}) {
    const Counted c = counted(each);
    EXPECT_EQ(spared(c), 0u);
    EXPECT_EQ(c.shared.macs, 0u);
    EXPECT_EQ(c.after.row_runs, c.before.row_runs);
  }
}

TEST(QueryTiles, a_window_leaves_less_to_share) {
  KernelCall call = prompt(8, 128);
  std::get<ops::Attention>(call.op).window = 16;
  const Counted c = counted(call);
  EXPECT_EQ(spared(c), pool_bytes(call, 8 * 16 - (16 + 7)));
  EXPECT_EQ(c.shared.macs, 2u * kHeads * kGroup * kDim * 8 * (16 - 7));
}

TEST(QueryTiles, integers_are_unpacked_once_for_a_tile_and_halves_as_they_are_met) {
  const Counted halves = counted(prompt(10, 128)), codes = counted(prompt(10, 128, Format::int8_fp8));
  EXPECT_EQ(halves.after.conversions, halves.before.conversions);
  EXPECT_EQ(codes.after.conversions, 2u * kHeads * kDim * 128);
}

TEST(QueryTiles, a_slice_of_heads_spares_its_share) {
  KernelCall call = prompt(10, 128);
  const Counted all = counted(call);
  call.slice = {1, 1};
  const Counted half = counted(call);
  EXPECT_EQ(2 * spared(half), spared(all));
  EXPECT_EQ(2 * half.shared.macs, all.shared.macs);
}

}  // namespace
}  // namespace vitro::sim
