// An attention of a prompt's last rows, and the append of their keys and values, as operands of benchmarks.
#pragma once
#include "engine/ops/operands.hpp"

namespace vitro {

struct AttentionShape {
  std::uint32_t kv_heads = 0, group = 0, dim = 0;  // group: query heads of each KV head
  std::uint32_t rows = 0, tokens = 0;              // the last `rows` of a prompt of `tokens`
};

// Keys, values and queries are random, in blocks of 32 tokens. Requires: holds_kv(format), rows <= tokens.
KernelCall bench_attention(const AttentionShape& shape, Format format);
// Writes keys and values of these rows to a pool of that format.
KernelCall bench_append(const AttentionShape& shape, Format format);

}  // namespace vitro
