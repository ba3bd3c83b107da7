// Pools of keys in integers and values in fp8, in every kernel set.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/kernels/compute_function.hpp"
#include "engine/ops/contract.hpp"
#include "engine/quant/float16.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

// A random attention over float32, and the same over a pool of the other format that was filled from it.
struct Pair {
  KernelCall coded, plain;  // `plain` holds the numbers that the codes stand for
};

constexpr std::array kCoded{Format::int8_fp8, Format::int4_fp8, Format::int8_e5m2, Format::int4_e5m2};

Pair random_pair(Rng& rng) {
  const Format format = kCoded[rng.below(kCoded.size())];
  Pair pair;
  do pair.plain = random_call(rng, ops::Attention{}, variant::kFloat);
  while (pair.plain.in[1].format != Format::f32);
  pair.coded = pair.plain;
  const KvPool from(pair.plain.in[1], pair.plain.get<ops::Attention>().pool_layers, pair.plain.layer);
  View& pool = pair.coded.in[1];
  pool.format = format;
  const KvPool to(pool, pair.plain.get<ops::Attention>().pool_layers, pair.plain.layer);
  const auto blocks = static_cast<std::uint32_t>((pair.plain.in[1].memory.size() - pair.plain.in[1].offset) / from.block_bytes());
  const View room = make_view({1, static_cast<std::uint32_t>(blocks * to.block_bytes()), 0}, format);
  pool.memory = room.memory;
  pool.offset = room.offset;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t which = 0; which < 2; ++which) {
      for (std::uint32_t head = 0; head < from.heads; ++head) {
        for (std::uint32_t t = 0; t < from.block_tokens; ++t) {
          auto* row = reinterpret_cast<float*>(from.data + from.offset(block, which, head) + t * from.row_bytes(which));
          std::byte* coded = room.data() + to.offset(block, which, head) + t * to.row_bytes(which);
          write_kv_row(format, which, row, from.dim, coded);
          read_kv_row(format, which, coded, from.dim, row);
        }
      }
    }
  }
  return pair;
}

TEST(KvFormat, attention_sums_up_the_numbers_that_codes_stand_for_bit_by_bit) {
  Rng rng(31);
  for (int i = 0; i < 40; ++i) {
    const Pair pair = random_pair(rng);
    for (const KernelSet* set : kernel_sets()) {
      const KernelCall coded = with_own_output(pair.coded), plain = with_own_output(pair.plain);
      ComputeFunction({std::string(set->name)}).execute(coded);
      ComputeFunction({std::string(set->name)}).execute(plain);
      EXPECT_EQ(bytes_of(coded.out[0]), bytes_of(plain.out[0])) << set->name << " " << i;
    }
  }
}

TEST(KvFormat, attention_by_table_reads_the_numbers_that_codes_stand_for) {
  Rng rng(34);
  for (int i = 0; i < 20; ++i) {
    Pair pair = random_pair(rng);
    KernelCall coded = with_own_output(pair.coded), plain = with_own_output(pair.plain);
    for (KernelCall* call : {&coded, &plain}) {
      call->variant = variant::kLutExp;
      ComputeFunction(ComputeOptions{}).execute(*call);
    }
    EXPECT_EQ(bytes_of(coded.out[0]), bytes_of(plain.out[0])) << i;
  }
}

// All blocks that the table of an attention names, staged.
KernelCall stage_of(const KernelCall& attention) {
  KernelCall stage;
  const View &pool = attention.in[1], &table = attention.in[2];
  stage.op = ops::KvStage{attention.get<ops::Attention>().pool_layers};
  stage.variant = variant::kFloat;
  stage.layer = attention.layer;
  const std::uint32_t blocks = table.shape[0] * table.shape[1];
  stage.batch = std::make_shared<const std::vector<SeqPos>>(blocks, SeqPos{0, pool.shape[1] - 1});
  stage.in = {pool, table};
  stage.in[1].shape = {blocks, 1, 0};
  stage.out = {make_view({2 * pool.shape[0] * blocks, pool.shape[1], pool.shape[2]}, Format::f16)};
  stage.out[0].shape[0] = pool.shape[0];
  return stage;
}

// The same attention over what was staged: block s of it is the s-th that the table named.
KernelCall over_staged(const KernelCall& attention, const KernelCall& stage) {
  KernelCall staged = attention;
  std::get<ops::Attention>(staged.op).pool_layers = 1;
  std::vector<std::uint32_t> order(stage.batch->size());
  std::iota(order.begin(), order.end(), 0u);
  staged.in[1] = stage.out[0];
  staged.in[2] = indices(order, attention.in[2].shape);
  return staged;
}

TEST(KvFormat, attention_over_staged_rows_is_that_over_numbers_rounded_to_halves_bit_by_bit) {
  Rng rng(35);
  for (int i = 0; i < 40; ++i) {
    const Pair pair = random_pair(rng);
    const auto rounded = static_cast<std::uint32_t>(pair.plain.in[1].memory.size() / sizeof(float));
    for (std::uint32_t e = 0; e < rounded; ++e) {
      float& x = reinterpret_cast<float*>(pair.plain.in[1].memory.data())[e];
      x = half_to_float(float_to_half(x));
    }
    for (const KernelSet* set : kernel_sets()) {
      ComputeFunction function({std::string(set->name)});
      const KernelCall stage = stage_of(pair.coded);
      check_call(stage);
      function.execute(stage);
      const KernelCall staged = with_own_output(over_staged(pair.coded, stage)), plain = with_own_output(pair.plain);
      check_call(staged);
      function.execute(staged);
      function.execute(plain);
      EXPECT_EQ(bytes_of(staged.out[0]), bytes_of(plain.out[0])) << set->name << " " << i;
    }
  }
}

TEST(KvFormat, staging_writes_the_positions_and_heads_that_are_named_and_counts_their_bytes) {
  Rng rng(36);
  for (int i = 0; i < 20; ++i) {
    KernelCall stage = stage_of(random_pair(rng).coded);
    auto batch = *stage.batch;
    for (SeqPos& row : batch) row.position = static_cast<std::uint32_t>(rng.below(stage.in[0].shape[1]));
    stage.batch = std::make_shared<const std::vector<SeqPos>>(batch);
    stage.slice = {stage.in[0].shape[0] - 1, 1};
    const KernelCall reference = with_own_output(stage);
    WorkCounts tally;
    run_reference(reference, &tally);
    const WorkCounts counts = count(stage);
    EXPECT_EQ(counts.read, tally.read);
    EXPECT_EQ(counts.written, tally.written);
    EXPECT_EQ(counts.conversions, tally.conversions);
    EXPECT_EQ(counts.row_runs, tally.row_runs);
    for (const KernelSet* set : kernel_sets()) {
      const KernelCall own = with_own_output(stage);
      ComputeFunction({std::string(set->name)}).execute(own);
      EXPECT_EQ(bytes_of(own.out[0]), bytes_of(reference.out[0])) << set->name;
    }
  }
}

TEST(KvFormat, an_append_writes_the_rows_that_the_format_says) {
  Rng rng(32);
  for (const Format format : kCoded) {
    const KernelCall call = append_of_copies(rng, Format::f32);
    KernelCall coded = call;
    coded.out[0].format = format;  // less than what there is room for
    const KernelCall reference = with_own_output(coded);
    WorkCounts tally;
    run_reference(reference, &tally);
    const WorkCounts counts = count(coded);
    EXPECT_EQ(counts.written[0], tally.written[0]);
    EXPECT_EQ(counts.read[0], tally.read[0]);
    EXPECT_EQ(counts.conversions, tally.conversions);
    for (const KernelSet* set : kernel_sets()) {
      const KernelCall own = with_own_output(coded);
      ComputeFunction({std::string(set->name)}).execute(own);
      EXPECT_EQ(bytes_of(own.out[0]), bytes_of(reference.out[0])) << set->name << ", " << to_string(format);
    }
  }
}

TEST(KvFormat, work_of_attention_is_counted_by_the_bytes_of_its_rows) {
  Rng rng(33);
  for (int i = 0; i < 20; ++i) {
    const KernelCall call = random_pair(rng).coded;
    WorkCounts tally;
    run_reference(with_own_output(call), &tally);
    const WorkCounts counts = count(call);
    EXPECT_EQ(counts.read[0], tally.read[0]);
    EXPECT_EQ(counts.conversions, tally.conversions);
    EXPECT_EQ(counts.macs, tally.macs);
  }
}

}  // namespace
}  // namespace vitro
