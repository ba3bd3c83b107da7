// What a core saves by passing over keys and values with several rows of a batch together (engine/ops/query_tiles.hpp).
#pragma once
#include "engine/ops/kernel_call.hpp"
#include "engine/ops/work.hpp"

namespace vitro::sim {

struct SharedKeys {
  std::uint64_t macs = 0;     // with keys and values that all queries of a tile meet
  std::uint32_t queries = 1;  // of the largest tile
};

// Takes from the counts of an attention what its rows do not read or convert again, since a row of their tile did. Rows of one sequence
// share what they see; those of others nothing, also where a sequence began as a copy and keeps its blocks.
// query_heads: those of one row that share a head of the pool. Requires: call is Attention, counts are its own by count().
SharedKeys share_keys(const KernelCall& call, std::uint32_t query_heads, WorkCounts& counts);

}  // namespace vitro::sim
