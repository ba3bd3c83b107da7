// Where the tokens of a sequence lie in a KV pool.
#pragma once
#include <algorithm>

#include "engine/ops/operands.hpp"

namespace vitro::cpu {

// Of tokens, those that lie together in the pool: `skip` tokens behind the piece's first one.
struct KvRun {
  std::uint32_t first, skip, count;
};

// The run that token t begins, up to `end`. Pieces are the runs of so many tokens in each block.
inline KvRun run_at(const KvPool& pool, std::uint32_t piece_tokens, std::uint32_t t, std::uint32_t end) {
  const std::uint32_t inside = t % pool.block_tokens, skip = inside % piece_tokens;
  return {t, skip, std::min({piece_tokens - skip, pool.block_tokens - inside, end - t})};
}

// Calls f(pointer to the piece, run) for all of them.
template <class F>
void for_each_kv_run(const KvPool& pool, std::uint32_t piece_tokens, const std::uint32_t* table, std::uint32_t which, std::uint32_t head,
                     Range tokens, F f) {
  for (std::uint32_t t = tokens.first; t < tokens.end();) {
    const KvRun run = run_at(pool, piece_tokens, t, tokens.end());
    const std::byte* block = pool.data + pool.offset(table[t / pool.block_tokens], which, head);
    f(block + (t % pool.block_tokens - run.skip) * pool.row_bytes(which), run);
    t += run.count;
  }
}

}  // namespace vitro::cpu
