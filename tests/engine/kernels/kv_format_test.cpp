// Pools of int8 keys and fp8 values, in every kernel set.
#include <gtest/gtest.h>

#include "engine/kernels/compute_function.hpp"
#include "engine/ops/contract.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

// A random attention over float32, and the same over a pool of the other format that was filled from it.
struct Pair {
  KernelCall coded, plain;  // `plain` holds the numbers that the codes stand for
};

Pair random_pair(Rng& rng) {
  Pair pair;
  do pair.plain = random_call(rng, ops::Attention{}, variant::kFloat);
  while (pair.plain.in[1].format != Format::f32);
  pair.coded = pair.plain;
  const KvPool from(pair.plain.in[1], pair.plain.get<ops::Attention>().pool_layers, pair.plain.layer);
  View& pool = pair.coded.in[1];
  pool.format = Format::int8_fp8;
  const KvPool to(pool, pair.plain.get<ops::Attention>().pool_layers, pair.plain.layer);
  const auto blocks = static_cast<std::uint32_t>((pair.plain.in[1].memory.size() - pair.plain.in[1].offset) / from.block_bytes());
  const View room = make_view({1, static_cast<std::uint32_t>(blocks * to.block_bytes()), 0}, Format::int8_fp8);
  pool.memory = room.memory;
  pool.offset = room.offset;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t which = 0; which < 2; ++which) {
      for (std::uint32_t head = 0; head < from.heads; ++head) {
        for (std::uint32_t t = 0; t < from.block_tokens; ++t) {
          auto* row = reinterpret_cast<float*>(from.data + from.offset(block, which, head) + t * from.row_bytes(which));
          std::byte* coded = room.data() + to.offset(block, which, head) + t * to.row_bytes(which);
          write_kv_row(Format::int8_fp8, which, row, from.dim, coded);
          read_kv_row(Format::int8_fp8, which, coded, from.dim, row);
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

TEST(KvFormat, an_append_writes_the_rows_that_the_format_says) {
  Rng rng(32);
  const KernelCall call = append_of_copies(rng, Format::f32);
  KernelCall coded = call;
  coded.out[0].format = Format::int8_fp8;  // less than what there is room for
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
    EXPECT_EQ(bytes_of(own.out[0]), bytes_of(reference.out[0])) << set->name;
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
