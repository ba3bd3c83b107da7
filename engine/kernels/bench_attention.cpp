#include "engine/kernels/bench_attention.hpp"

#include <cmath>
#include <cstring>

#include "engine/base/rng.hpp"
#include "engine/kernels/bench_weights.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro {

KernelCall bench_attention(const AttentionShape& shape, Format format) {
  constexpr std::uint32_t kBlockTokens = 32;
  const std::uint32_t blocks = (shape.tokens + kBlockTokens - 1) / kBlockTokens, heads = shape.kv_heads * shape.group;
  Rng rng(3);
  const auto random = [&] { return static_cast<float>(rng.uniform() - 0.5); };
  View pool, table, q = float_view(shape.rows, heads * shape.dim), y = float_view(shape.rows, heads * shape.dim);
  pool.shape = {shape.kv_heads, kBlockTokens, shape.dim};
  pool.format = format;
  const std::size_t rows = std::size_t{blocks} * shape.kv_heads * kBlockTokens;
  pool.memory = huge_lease(rows * kv_pair_bytes(format, shape.dim));
  std::vector<float> row(shape.dim);
  std::byte* at = pool.data();
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (const std::uint32_t which : {0u, 1u}) {
      for (std::uint32_t i = 0; i < shape.kv_heads * kBlockTokens; ++i, at += kv_row_bytes(format, which, shape.dim)) {
        for (float& x : row) x = random();
        write_kv_row(format, which, row.data(), shape.dim, at);
      }
    }
  }
  table.shape = {shape.rows, blocks, 0};
  table.format = Format::index32;
  table.memory = huge_lease(view_bytes(table));
  for (std::size_t i = 0; i < elements(table); ++i) table.as<std::uint32_t>()[i] = static_cast<std::uint32_t>(i % blocks);
  q.shape = y.shape = {shape.rows, heads, shape.dim};
  for (std::size_t i = 0; i < elements(q); ++i) q.as<float>()[i] = random();

  auto batch = std::make_shared<std::vector<SeqPos>>();
  for (std::uint32_t row = 0; row < shape.rows; ++row) batch->push_back({0, shape.tokens - shape.rows + row});
  ops::Attention attention;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(shape.dim));
  KernelCall call;
  call.op = attention;
  call.variant = variant::kFloat;
  call.layer = 0;
  call.batch = std::move(batch);
  call.in = {q, pool, table};
  call.out = {y};
  return call;
}

KernelCall bench_append(const AttentionShape& shape, Format format) {
  KernelCall call = bench_attention(shape, format);
  const View pool = call.in[1], table = call.in[2];
  Rng rng(4);
  View k = float_view(shape.rows, shape.kv_heads * shape.dim);
  k.shape = {shape.rows, shape.kv_heads, shape.dim};
  for (std::size_t i = 0; i < elements(k); ++i) k.as<float>()[i] = static_cast<float>(rng.normal());
  call.op = ops::KvAppend{};
  call.in = {k, k, table};
  call.out = {pool};
  return call;
}

}  // namespace vitro
