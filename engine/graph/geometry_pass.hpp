// The pass over the operator graph that fuses what only moves data (MNN-LLM 5.4).
#pragma once
#include <span>

#include "engine/graph/operator.hpp"
#include "engine/graph/region.hpp"

namespace vitro {

// Of a Move that is cut over columns, each of them is a head of its own.
struct HeadExtents {
  std::uint32_t rows = 1, heads = 1, dim = 1;
};
HeadExtents extents_of(const Operator& move, std::uint32_t rows, const ModelConfig& config);
// What a Move's path moves of the heads in `slice`, as one list. Requires: the path begins and ends as its movements say.
CopyRegions regions_of(std::span<const Movement> path, const HeadExtents& x, Slice slice = {});

// A Move whose result one other Move alone reads becomes a part of that one. What then moves nothing is taken out: who reads the result
// reads the source, and who wrote the result in place writes the source. Operators keep their order.
OperatorGraph fuse_moves(const OperatorGraph& graph, const ModelConfig& config);

}  // namespace vitro
