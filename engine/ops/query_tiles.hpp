// Which rows of a batch pass over keys and values together on a core. One rule for the kernel that does it and for who prices it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/ops/operands.hpp"

namespace vitro::ops {

// Queries of a KV head that pass together: of 8 to 128 the quickest on an x86 server (docs/design/data-reorder.md).
inline constexpr std::size_t kQueriesTogether = 32;
// Scores of them, one for each token that they see: two MiB, so that a long context takes no memory that grows with it. Fewer cost time:
// with half a MiB a prompt of 32 K tokens took 1.46 times as long as without a bound, with a whole one 1.11 times.
inline constexpr std::size_t kScoresTogether = 512 * 1024;

// Rows of `group` queries each that see `tokens`, at least one: a row alone has as many scores as it needs. Requires: group, tokens > 0.
constexpr std::size_t rows_together(std::size_t group, std::size_t tokens) {
  return std::max<std::size_t>(1, std::min(kQueriesTogether, kScoresTogether / tokens) / group);
}

// Rows [first, first + rows) of the batch, and the tokens that all of them see in the same blocks of the pool.
struct QueryTile {
  std::uint32_t first = 0, rows = 1;
  Range tokens;
};

// The tile that begins with row `first` of `batch` rows with `group` queries each: rows join as long as all of them share half of what
// they see. seen(row): the tokens that it sees; shared(tokens, first, row): those of `tokens` that `row` sees in the blocks of row `first`.
template <class Seen, class Shared>
QueryTile query_tile(std::uint32_t first, std::size_t batch, std::size_t group, Seen seen, Shared shared) {
  QueryTile tile{first, 1, seen(first)};
  std::uint32_t longest = tile.tokens.count;
  const std::size_t most = rows_together(group, longest);
  for (std::uint32_t row = first + 1; row < batch && tile.rows < most; ++row, ++tile.rows) {
    const Range together = shared(tile.tokens, first, row);
    longest = std::max(longest, seen(row).count);
    if (2 * together.count < longest) break;
    tile.tokens = together;
  }
  return tile;
}

// From the first to the last token that any row of the tile sees.
template <class Seen>
Range seen_by_any(const QueryTile& tile, Seen seen) {
  std::uint32_t first = tile.tokens.first, end = tile.tokens.end();
  for (std::uint32_t i = 0; i < tile.rows; ++i) {
    const Range own = seen(tile.first + i);
    first = std::min(first, own.first);
    end = std::max(end, own.end());
  }
  return {first, end - first};
}

}  // namespace vitro::ops
