// Rows of a batch that pass over keys and values together get what each would get alone.
#include "engine/ops/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/kernels/bench_attention.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/query_tiles.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

constexpr std::uint32_t kBlocks = 12, kBlockTokens = 8, kPoolBlocks = 40;

struct Shape {
  std::uint32_t kv_heads, group, dim, window, block_tokens;
  Format format;
};

View random_pool(Rng& rng, const Shape& shape) {
  View pool;
  pool.format = shape.format;
  pool.shape = {shape.kv_heads, shape.block_tokens, shape.dim};
  const Bytes block = Bytes{shape.kv_heads} * shape.block_tokens * kv_pair_bytes(shape.format, shape.dim);
  pool.memory = make_view({1, static_cast<std::uint32_t>(kPoolBlocks * block), 0}, Format::int8_fp8).memory;
  const KvPool filled(pool, 1, 0);
  std::vector<float> row(shape.dim);
  for (std::uint32_t i = 0; i < kPoolBlocks * 2 * shape.kv_heads; ++i) {
    const std::uint32_t block = i / (2 * shape.kv_heads), which = i % 2, head = i / 2 % shape.kv_heads;
    for (std::uint32_t t = 0; t < shape.block_tokens; ++t) {
      for (float& x : row) x = static_cast<float>(rng.normal());
      std::byte* out = filled.data + filled.offset(block, which, head) + t * filled.row_bytes(which);
      write_kv_row(shape.format, which, row.data(), shape.dim, out);
    }
  }
  return pool;
}

// Runs of rows that follow each other in one sequence, and sequences that begin in the same blocks, in any order.
KernelCall mixed_batch(Rng& rng, const Shape& shape) {
  auto batch = std::make_shared<std::vector<SeqPos>>();
  std::vector<std::uint32_t> table, blocks(kBlocks);
  for (std::uint32_t sequence = 0; sequence < 5; ++sequence) {
    const std::uint32_t common = sequence == 0 ? 0 : static_cast<std::uint32_t>(rng.below(kBlocks + 1));  // with the sequence before
    for (std::uint32_t i = common; i < kBlocks; ++i) blocks[i] = static_cast<std::uint32_t>(rng.below(kPoolBlocks));
    const std::uint32_t rows = rng.below(3) == 0 ? 1 : static_cast<std::uint32_t>(rng.below(40));
    std::uint32_t position = static_cast<std::uint32_t>(rng.below(kBlocks * kBlockTokens - rows));
    for (std::uint32_t row = 0; row < rows; ++row, ++position) {
      batch->push_back({sequence, position});
      table.insert(table.end(), blocks.begin(), blocks.end());
      const std::uint32_t last = position / shape.block_tokens;
      for (std::uint32_t i = last + 1; i < kBlocks; ++i) table[table.size() - kBlocks + i] = ~0u;  // nobody may look
    }
  }
  if (batch->empty()) return mixed_batch(rng, shape);
  const auto rows = static_cast<std::uint32_t>(batch->size());
  KernelCall call;
  ops::Attention attention;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(shape.dim));
  attention.window = shape.window;
  call.op = attention;
  call.variant = variant::kFloat;
  call.layer = 0;
  call.batch = batch;
  const View pool = random_pool(rng, shape);
  call.in = {floats(rng, {rows, shape.kv_heads * shape.group, shape.dim}), pool, indices(table, {rows, kBlocks, 0})};
  call.out = {make_view({rows, shape.kv_heads * shape.group, shape.dim}, Format::f32)};
  return call;
}

// The call of one row.
KernelCall alone(const KernelCall& call, std::uint32_t row) {
  KernelCall one = call;
  one.batch = std::make_shared<std::vector<SeqPos>>(1, (*call.batch)[row]);
  const auto cut = [&](View& view) {
    view.offset += row * (view_bytes(view) / view.shape[0]);
    view.shape[0] = 1;
  };
  cut(one.in[0]);
  cut(one.in[2]);
  cut(one.out[0]);
  return one;
}

TEST(Attention, rows_that_pass_together_have_the_bits_of_rows_alone) {
  Rng rng(41);
  for (const std::uint32_t window : {0u, 5u, 37u}) {
    for (int i = 0; i < 12; ++i) {
      const Format format = kKvFormats[static_cast<std::size_t>(i) % kKvFormats.size()];
      const Shape shape{1 + i / 2 % 2u, i % 3 == 0 ? 1u : 3u, i % 4 == 0 ? 20u : 32u, window, i % 5 == 0 ? 48u : kBlockTokens, format};
      const KernelCall call = mixed_batch(rng, shape);
      for (const KernelSet* set : kernel_sets()) {
        ComputeFunction function({std::string(set->name)});
        const KernelCall together = with_own_output(call), apart = with_own_output(call);
        function.execute(together);
        for (std::uint32_t row = 0; row < call.batch->size(); ++row) function.execute(alone(apart, row));
        EXPECT_EQ(bytes_of(together.out[0]), bytes_of(apart.out[0])) << set->name << ", " << to_string(format) << ", window " << window
                                                                  << ", " << i;
      }
    }
  }
}

// What the parts of a call leave in `out`, whose numbers in between have room for a few more positions.
void in_parts(ComputeFunction& function, const KernelCall& call, const View& out) {
  const auto& op = call.get<ops::Attention>();
  const View& q = call.in[0];
  std::uint32_t room = 3;
  for (const SeqPos& row : *call.batch) room = std::max(room, visible(row.position, op.window).count + 3);
  KernelCall scores = call, weights = call, values = call;
  scores.op = ops::AttentionScores{op.scale, op.window, op.pool_layers, op.scales_query};
  scores.out = {make_view({q.shape[0], q.shape[1], room}, q.format)};
  weights.op = ops::AttentionWeights{op.window};
  weights.in = scores.out;
  weights.out = {make_view({q.shape[0], q.shape[1], room}, Format::f32)};
  values.op = ops::AttentionValues{op.window, op.pool_layers};
  values.in[0] = weights.out[0];
  values.out = {out};
  for (const KernelCall* part : {&scores, &weights, &values}) function.execute(*part);
}

TEST(Attention, in_parts_has_the_bits_of_the_whole_with_every_format_of_keys_and_values) {
  Rng rng(43);
  for (const std::uint32_t window : {0u, 5u, 37u}) {
    for (std::size_t i = 0; i < 2 * kKvFormats.size(); ++i) {
      const Format format = kKvFormats[i % kKvFormats.size()];
      const Shape shape{1 + static_cast<std::uint32_t>(i) % 2, i % 3 == 0 ? 1u : 3u, 32, window, i % 5 == 0 ? 48u : kBlockTokens, format};
      KernelCall call = mixed_batch(rng, shape);
      if (i >= kKvFormats.size()) {  // float16 numbers and scores, of scaled queries
        call = in_halves(call, rng);
        std::get<ops::Attention>(call.op).scales_query = true;
      }
      for (const KernelSet* set : kernel_sets()) {
        ComputeFunction function({std::string(set->name)});
        const KernelCall whole = with_own_output(call), parts = with_own_output(call);
        function.execute(whole);
        in_parts(function, parts, parts.out[0]);
        EXPECT_EQ(bytes_of(whole.out[0]), bytes_of(parts.out[0])) << set->name << ", " << to_string(format) << ", window " << window
                                                                  << ", " << i;
      }
    }
  }
}

// A memory budget has no room for scores: what they take must not follow the context.
TEST(Attention, scores_of_rows_that_pass_together_stay_within_their_room) {
  for (const std::size_t group : {1u, 3u, 7u, 32u, 64u}) {
    for (std::size_t tokens = 1; tokens <= 1u << 20; tokens *= 2) {
      const std::size_t rows = ops::rows_together(group, tokens);
      if (rows > 1) {
        EXPECT_LE(rows * group * tokens, ops::kScoresTogether) << group << " " << tokens;
      }
      EXPECT_EQ(rows, tokens <= 16384 ? std::max<std::size_t>(1, 32 / group) : std::max<std::size_t>(1, rows));
    }
  }
}

TEST(Attention, few_rows_of_a_long_context_have_the_bits_of_rows_alone) {
  constexpr std::uint32_t kTokens = 40000, kRows = 40;
  static_assert(ops::rows_together(2, kTokens) < ops::rows_together(2, 1) && ops::rows_together(2, kTokens) > 1);
  const KernelCall call = bench_attention({1, 2, 16, kRows, kTokens}, Format::int8_fp8);
  const KernelCall together = with_own_output(call), apart = with_own_output(call);
  ComputeFunction function(ComputeOptions{});
  function.execute(together);
  for (std::uint32_t row = 0; row < kRows; ++row) function.execute(alone(apart, row));
  EXPECT_EQ(bytes_of(together.out[0]), bytes_of(apart.out[0]));
}

}  // namespace
}  // namespace vitro
