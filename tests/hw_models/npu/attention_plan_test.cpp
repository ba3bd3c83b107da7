// Attention block by block of keys: the simulated NPU prices the worker's plan, and each part of it has a price.
#include "engine/base/attention_plan.hpp"

#include <gmock/gmock.h>

#include "engine/kernels/hexagon/attention_layout.hpp"
#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

struct AttentionCall {
  std::uint32_t sequences, rows, query_heads, kv_heads, keys, columns;
};
// Of Qwen2.5-1.5B step by step and in a prompt, of a batch, of heads with keys and values of their own, of odd sizes.
constexpr AttentionCall kCalls[] = {{1, 1, 6, 2, 4096, 128}, {1, 32, 6, 2, 700, 128}, {8, 1, 6, 2, 1000, 128}, {1, 1, 1, 32, 2048, 128},
                                    {3, 5, 4, 2, 77, 48}};

Work work_of(const AttentionCall& c) {
  Work work;
  work.rows = c.sequences * c.rows;
  work.sequence_rows = c.rows;
  work.query_heads = c.query_heads;
  work.kv_heads = c.kv_heads;
  work.head_columns = c.columns;
  work.macs = std::uint64_t{2} * work.rows * c.query_heads * c.kv_heads * c.keys * c.columns;
  work.reused_bytes = Bytes{4} * work.rows * c.kv_heads * c.keys * c.columns;
  work.read_bytes = work.reused_bytes + Bytes{4} * work.rows * c.query_heads * c.kv_heads * c.columns;
  work.written_bytes = work.read_bytes - work.reused_bytes;
  return work;
}

class AttentionPlan : public testing::Test {
 protected:
  AttentionPlan() {
    kernel_.matrix = true;
    kernel_.threads = 4;
    softmax_.packets_per_weight = 0.04;
    softmax_.packets_per_element = 0.3;
    quotient_.packets_per_element = 0.1;
  }
  TilePlan plan(const AttentionCall& call, Exponential exponential = Exponential::table) const {
    Work work = work_of(call);
    work.exponential = exponential;
    return TilePlanner(parts_).plan(work, kernel_, &softmax_, &quotient_);
  }
  // Of all threads together.
  double packets(const AttentionCall& call) const {
    const Pass pass = plan(call).pass;
    return ((pass.groups - 1) * pass.full.vector + pass.last.vector) * parts_.clock * kernel_.threads;
  }

  NpuBench bench_{phone()};
  HexagonParameters parts_ = bench_.parts();
  Kernel kernel_, softmax_, quotient_;
};

TEST_F(AttentionPlan, that_is_priced_is_the_one_that_runs) {
  for (const AttentionCall& c : kCalls) {
    hexagon::Operator op{};  // as the host makes it for a pass
    op.kind = hexagon::Kind::attention;
    op.rows = c.keys;
    op.pitch = (c.keys + 31) / 32 * 32;
    op.columns = hexagon::attention_columns(c.columns);
    op.batch = c.rows * c.query_heads;
    op.bits = c.kv_heads;
    op.stages = plan(c).stages;
    for (const Exponential exponential : {Exponential::table, Exponential::f16, Exponential::f32}) {
      op.exponential = exponential;
      const TilePlan priced = plan(c, exponential);
      EXPECT_EQ(priced.stages, op.stages);
      EXPECT_TRUE(hexagon::valid_attention(op)) << c.keys;
      EXPECT_EQ(priced.pass.groups, c.sequences * op.stages.groups);
      EXPECT_LE(hexagon::place_attention(op).end, priced.buffers[0]);
      EXPECT_LT(priced.buffers[0], hexagon::place_attention(op).end + 4096) << "no room for a table that is not there";
    }
  }
}

TEST_F(AttentionPlan, keys_are_made_tiles_of_once_for_a_pass_and_scores_and_results_pay_for_each_row) {
  const AttentionCall call{2, 3, 6, 2, 300, 128};
  const double before = packets(call);
  softmax_.packets_per_weight += 0.01;
  EXPECT_NEAR(packets(call) - before, 0.01 * 2 * 2 * 2 * 320 * 128, 1e-6 * before) << "of two sequences, in whole tiles of keys";
  softmax_.packets_per_weight -= 0.01;
  softmax_.packets_per_element += 0.01;
  EXPECT_NEAR(packets(call) - before, 0.01 * 2 * 2 * 18 * 320, 1e-6 * before);
  softmax_.packets_per_element -= 0.01;
  quotient_.packets_per_element += 0.01;
  EXPECT_NEAR(packets(call) - before, 0.01 * 2 * 2 * 18 * 128, 1e-6 * before);
}

// As the worker counts them: tiles of keys from the first on that a row of the pass does not see, or that keys do not fill.
std::uint64_t masked_by_hand(const AttentionCall& c, std::uint32_t first_row_sees) {
  std::uint64_t scores = 0;
  for (std::uint32_t first = 0; first < c.rows; first += 32) {
    const std::uint32_t rows = std::min(32u, c.rows - first), pairs = (rows * c.query_heads + 1) / 2;
    const std::uint32_t fewest = first_row_sees + first, most = fewest + rows - 1;
    for (std::uint32_t key = 0; key < most; key += 32) {
      if (key + 32 > fewest) scores += std::uint64_t{pairs} * 2 * 32 * c.kv_heads;
    }
  }
  return scores * c.sequences;
}

TEST_F(AttentionPlan, keys_that_rows_do_not_see_and_sums_have_a_price) {
  struct Case {
    std::uint32_t sequences, rows, first_row_sees;
  };
  // Steps with and without a whole tile at the end, a batch, prompts: in one pass, that begins within a tile, in several passes.
  for (const Case& c : {Case{1, 1, 4096}, Case{1, 1, 4097}, Case{8, 1, 1000}, Case{1, 20, 1}, Case{1, 32, 1}, Case{1, 32, 33},
                        Case{1, 32, 50}, Case{1, 32, 64}, Case{2, 3, 31}, Case{1, 96, 1}, Case{1, 64, 17}}) {
    AttentionCall call{c.sequences, c.rows, 6, 2, 0, 128};
    const auto of = [&] {
      Work work = work_of(call);
      work.macs = std::uint64_t{2} * c.sequences * call.query_heads * call.kv_heads * call.columns *
                  (std::uint64_t{c.rows} * c.first_row_sees + std::uint64_t{c.rows} * (c.rows - 1) / 2);
      const Pass pass = TilePlanner(parts_).plan(work, kernel_, &softmax_, &quotient_).pass;
      return ((pass.groups - 1) * pass.full.vector + pass.last.vector) * parts_.clock * kernel_.threads;
    };
    const double before = of();
    softmax_.packets_per_masked = 0.5;
    const double masks = of() - before;
    softmax_.packets_per_masked = 0;
    EXPECT_NEAR(masks, 0.5 * static_cast<double>(masked_by_hand(call, c.first_row_sees)), 1e-6 * before)
        << c.sequences << " x " << c.rows << ", first sees " << c.first_row_sees;
    quotient_.packets_per_sum = 0.5;
    const double sums = of() - before;
    quotient_.packets_per_sum = 0;
    EXPECT_NEAR(sums, 0.5 * c.sequences * c.rows * 6 * 2, 1e-6 * before);
  }
}

TEST_F(AttentionPlan, matrix_unit_multiplies_scores_and_outputs_and_what_is_kept) {
  const TilePlan priced = plan({1, 1, 6, 1, 256, 128});
  const double seconds = (priced.pass.groups - 1) * priced.pass.full.matrix + priced.pass.last.matrix;
  const double products = 4 * 8 + 4 * 8 + 4, stored = 8 + 2 * 4;  // tiles: Q K^T, P V, the diagonal of the second block; S, and O twice
  EXPECT_NEAR(seconds * parts_.hmx_clock, products * parts_.tile_cycles_f16 + stored * parts_.tile_out_cycles, 1e-6);
}

// One matrix unit's tile for up to 32 queries: a longer prompt is more passes, which read keys and values again.
TEST_F(AttentionPlan, prompts_go_by_32_rows_and_by_fewer_where_tcm_is_small) {
  const auto groups = [&](std::uint32_t rows) { return plan({1, rows, 6, 2, 512, 128}).pass.groups; };
  EXPECT_EQ(groups(32), 2 * 4 + 4u);
  EXPECT_EQ(groups(33), 2 * groups(32));
  EXPECT_EQ(groups(96), 3 * groups(32));
  parts_.tcm = 768 * KiB;
  EXPECT_EQ(groups(32), 2 * 12u);
  parts_.tcm = 128 * KiB;
  EXPECT_THROW(groups(1), RunError);
}

TEST_F(AttentionPlan, fidelities_agree) {
  for (const AttentionCall& call : kCalls) {
    double seconds[2];
    for (int detailed = 0; detailed < 2; ++detailed) {
      NpuBench bench(phone(), detailed != 0 ? "detailed" : "flow");
      Work work = work_of(call);
      work.kernel = bench.model().kernel("float", "f16").id;
      work.has_own_softmax = work.in_blocks = true;
      work.softmax = bench.model().kernel("attention", "exp_table").id;
      work.quotient = bench.model().kernel("attention", "quotient").id;
      seconds[detailed] = to_seconds(bench.call(work));
    }
    EXPECT_NEAR(seconds[0] / seconds[1], 1, 0.05) << call.sequences << " x " << call.rows << ", " << call.keys << " keys";
  }
}

}  // namespace
}  // namespace vitro::hw
