// Random operands of the operators that keep keys and values or meet them, and the draws that all operators share.
#pragma once
#include <numeric>
#include <optional>
#include <vector>

#include "tests/engine/kernels/call_kit.hpp"

namespace vitro::test {

// Never two draws among the arguments of one call: their order is the compiler's choice.
inline std::uint32_t between(Rng& rng, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(rng.below(high - low + 1));
}

inline Batch random_batch(Rng& rng, std::uint32_t rows, std::uint32_t positions) {
  auto batch = std::make_shared<std::vector<SeqPos>>();
  for (std::uint32_t b = 0; b < rows; ++b) batch->push_back({b, static_cast<std::uint32_t>(rng.below(positions))});
  return batch;
}

inline void random_slice(Rng& rng, KernelCall& call, std::uint32_t n, std::uint32_t grain = 1) {
  if (rng.below(3) == 0) return;
  const std::uint32_t first = static_cast<std::uint32_t>(rng.below(n / grain)) * grain;
  call.slice = {first, between(rng, 1, (n - first) / grain) * grain};
  if (rng.below(2) == 0) call.slice.count = ~0u;
}

// Pool and block table for positions below 64: every sequence has blocks of its own, in a mixed order. Returns the pool's layers.
inline std::uint32_t add_pool(Rng& rng, KernelCall& call, std::uint32_t kv_heads, std::uint32_t dim, View& pool, View& table,
                       std::optional<Format> asked = std::nullopt) {
  const std::uint32_t batch = static_cast<std::uint32_t>(call.batch->size()), tokens = 1u << rng.below(5),
                      blocks = (64 + tokens - 1) / tokens;
  const std::uint32_t layers = between(rng, 1, 3);
  call.layer = static_cast<std::int16_t>(rng.below(layers));
  const Format drawn = rng.below(2) == 0 ? Format::f16 : Format::f32, format = asked.value_or(drawn);
  const View all = make_view({batch * blocks * layers * 2 * kv_heads, tokens, dim}, format);
  fill(all, rng, 1);
  pool = all;
  pool.shape = {kv_heads, tokens, dim};
  std::vector<std::uint32_t> ids(batch * blocks);
  std::iota(ids.begin(), ids.end(), 0u);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[rng.below(i)]);
  table = indices(ids, {batch, blocks, 0});
  return layers;
}

inline std::vector<std::uint32_t> random_ids(Rng& rng, std::size_t n, std::uint32_t bound) {
  std::vector<std::uint32_t> ids(n);
  for (auto& id : ids) id = static_cast<std::uint32_t>(rng.below(bound));
  return ids;
}

struct RandomAttention {
  Rng& rng;
  KernelCall& call;
  std::uint32_t rows;

  void operator()(ops::KvAppend& append) const {
    const Pool pool = draw_pool(append);
    call.in = {floats(rng, {rows, pool.heads, pool.dim}), floats(rng, {rows, pool.heads, pool.dim}), pool.table};
    call.out = {pool.view};
    random_slice(rng, call, pool.heads);
  }
  void operator()(ops::KvStage& stage) const {
    const Pool pool = draw_pool(stage);
    call.batch = random_batch(rng, rows, pool.view.shape[1]);
    call.in = {pool.view, indices(random_ids(rng, rows, pool.table.shape[0] * pool.table.shape[1]), {rows, 1, 0})};
    call.out = {make_view({2 * pool.heads * rows, pool.view.shape[1], pool.dim}, Format::f16)};
    call.out[0].shape[0] = pool.heads;
    random_slice(rng, call, pool.heads);
  }
  void operator()(ops::Attention& attention) const {
    const Pool pool = draw_pool(attention);
    const std::uint32_t heads = pool.heads * between(rng, 1, 3);
    call.in = {floats(rng, {rows, heads, pool.dim}), pool.view, pool.table};
    call.out = {make_view({rows, heads, pool.dim}, Format::f32)};
    attention.scale = 1.0f / std::sqrt(static_cast<float>(pool.dim));
    attention.window = window();
    random_slice(rng, call, pool.heads);
  }
  // Room for 64 positions, and more.
  void operator()(ops::AttentionScores& scores) const {
    const Pool pool = draw_pool(scores);
    const std::uint32_t heads = pool.heads * between(rng, 1, 3);
    call.in = {floats(rng, {rows, heads, pool.dim}), pool.view, pool.table};
    call.out = {make_view({rows, heads, between(rng, 64, 70)}, Format::f32)};
    scores.scale = 1.0f / std::sqrt(static_cast<float>(pool.dim));
    scores.window = window();
    random_slice(rng, call, pool.heads);
  }
  void operator()(ops::AttentionWeights& weights) const {
    const std::uint32_t heads = between(rng, 1, 5), room = between(rng, 64, 70);
    call.batch = random_batch(rng, rows, 64);
    call.in = {floats(rng, {rows, heads, room}, 3)};
    call.out = {rng.below(2) == 0 ? call.in[0] : make_view({rows, heads, room}, Format::f32)};
    weights.window = window();
    random_slice(rng, call, heads);
  }
  void operator()(ops::AttentionValues& values) const {
    const Pool pool = draw_pool(values);
    const std::uint32_t heads = pool.heads * between(rng, 1, 3);
    call.in = {floats(rng, {rows, heads, between(rng, 64, 70)}), pool.view, pool.table};
    for (std::uint32_t i = 0; i < elements(call.in[0]); ++i) {
      float& weight = call.in[0].as<float>()[i];  // of a softmax: positive, and 1 at most
      weight = 1.0f / (1.0f + std::abs(weight));
    }
    call.out = {make_view({rows, heads, pool.dim}, Format::f32)};
    values.window = window();
    random_slice(rng, call, pool.heads);
  }

 private:
  struct Pool {
    std::uint32_t heads = 0, dim = 0;
    View view, table;
  };
  // Of a batch that is drawn, too.
  template <class Op>
  Pool draw_pool(Op& op) const {
    Pool pool{between(rng, 1, 4), between(rng, 1, 80), {}, {}};
    call.batch = random_batch(rng, rows, 64);
    op.pool_layers = add_pool(rng, call, pool.heads, pool.dim, pool.view, pool.table);
    return pool;
  }
  std::uint32_t window() const { return rng.below(2) == 0 ? 0 : between(rng, 1, 70); }
};

}  // namespace vitro::test
