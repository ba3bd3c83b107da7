// How many rows of a batch pass over keys and values together.
#pragma once
#include <algorithm>
#include <cstddef>

namespace vitro::cpu {

// Queries of a KV head that pass together: of 8 to 128 the quickest on an x86 server (docs/design/data-reorder.md).
inline constexpr std::size_t kQueriesTogether = 32;
// Scores of them, one for each token that they see: two MiB, so that a long context takes no memory that grows with it. Fewer cost time:
// with half a MiB a prompt of 32 K tokens took 1.46 times as long as without a bound, with a whole one 1.11 times.
inline constexpr std::size_t kScoresTogether = 512 * 1024;
// Bytes of them that stay in memory between calls: threads take turns, and each has its own.
inline constexpr std::size_t kScoresKept = 512 * 1024;

// Rows of `group` queries each that see `tokens`, at least one: a row alone has as many scores as it needs. Requires: group, tokens > 0.
constexpr std::size_t rows_together(std::size_t group, std::size_t tokens) {
  return std::max<std::size_t>(1, std::min(kQueriesTogether, kScoresTogether / tokens) / group);
}

}  // namespace vitro::cpu
