#include "sim/query_tiles.hpp"

#include <algorithm>

#include "engine/ops/attention.hpp"
#include "engine/ops/query_tiles.hpp"

namespace vitro::sim {

SharedKeys share_keys(const KernelCall& call, std::uint32_t query_heads, WorkCounts& counts) {
  const std::vector<SeqPos>& batch = *call.batch;
  const View& pool = call.in[1];
  const std::uint32_t window = call.get<ops::Attention>().window, block = pool.shape[1];
  const std::uint64_t dim = pool.shape[2], heads = sliced(call, pool.shape[0]).count;

  const auto seen = [&](std::uint32_t row) { return visible(batch[row].position, window); };
  const auto shared = [&](Range tokens, std::uint32_t first, std::uint32_t row) {
    return batch[first].sequence == batch[row].sequence ? common(tokens, seen(row)) : Range{};
  };

  SharedKeys result;
  std::uint64_t spared_tokens = 0, spared_runs = 0;
  for (std::uint32_t b = 0; b < batch.size();) {
    const ops::QueryTile tile = ops::query_tile(b, batch.size(), query_heads, seen, shared);
    if (tile.rows > 1) {
      const Range all = ops::seen_by_any(tile, seen);
      for (std::uint32_t row = tile.first; row < tile.first + tile.rows; ++row) {
        spared_tokens += seen(row).count;
        spared_runs += blocks_of(seen(row), block);
      }
      spared_tokens -= all.count;
      spared_runs -= blocks_of(all, block);
      result.macs += 2 * heads * query_heads * dim * tile.rows * tile.tokens.count;
      result.queries = std::max(result.queries, tile.rows * query_heads);
    }
    b += tile.rows;
  }
  counts.read[static_cast<std::size_t>(pool.memory.placement())] -= heads * spared_tokens * kv_pair_bytes(pool.format, pool.shape[2]);
  counts.row_runs -= static_cast<std::uint32_t>(2 * heads * spared_runs);
  // Float16 is converted as it is met, by every two queries; other formats once for all that meet a piece.
  if (pool.format != Format::f32 && pool.format != Format::f16) counts.conversions -= 2 * heads * spared_tokens * dim;
  return result;
}

}  // namespace vitro::sim
