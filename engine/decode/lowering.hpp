// From the operator graph to phases: what may run side by side between two barriers.
#pragma once
#include <vector>

#include "engine/model/operator_graph.hpp"

namespace vitro {

// Operators that are cut alike and follow each other slice by slice (gate, up, glu), so that one unit carries a slice
// through all of them without meeting the others.
struct OperatorGroup {
  Split split{};
  RowSet rows{};
  std::uint32_t extent = 1;  // columns or KV heads to be shared out
  std::uint32_t grain = 1;   // a slice starts at a multiple of this
  std::vector<OperatorId> operators;
};

// All units join after a phase. Groups are in execution order for each unit.
struct Phase {
  std::int16_t layer = -1;
  BlockKind block{};
  bool routed = false;  // waits for the router's choice
  bool whole_ffn = false;  // its one operator belongs to the FfnBlock
  std::vector<OperatorGroup> groups;
};

// `units`: with a single unit nothing has to be joined but for outcomes that decide what runs next (the router's).
std::vector<Phase> lower(const OperatorGraph& graph, const ModelConfig& config, std::size_t units);

// The share of [0, extent) that falls to `unit` of `units`, in whole grains, as even as grains allow; earlier units
// take the remainder, so the first one always has work.
Slice share_of(std::uint32_t extent, std::uint32_t grain, std::size_t unit, std::size_t units);

}  // namespace vitro
