// From the operator graph to phases: what may run side by side between two barriers.
#pragma once
#include <vector>

#include "engine/graph/operator.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/weights.hpp"

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
  bool routed = false;     // waits for the router's choice
  bool whole_ffn = false;  // its one operator belongs to the FfnBlock
  bool attends = false;    // heads are shared out in it
  bool keeps_kv = false;   // keys and values are written
  bool stages_kv = false;  // and converted for a unit that reads them in another form
  std::vector<OperatorGroup> groups;
};

struct LoweringOptions {
  bool waits_to_attend = false;  // something has to be waited for before attention of each layer, and is begun after it (KvFlash)
  bool attention_alone = false;  // several units, but attention blocks are one unit's, so that nothing in them waits
  bool layers_apart = false;     // no phase has operators of two layers
  const WeightStore* weights = nullptr;  // slices end where the groups of rows of their layouts do; null: groups of kTileRows
};
// `units`: with a single unit nothing has to be joined but for outcomes that decide what runs next (the router's).
std::vector<Phase> lower(const OperatorGraph& graph, const ModelConfig& config, std::size_t units, LoweringOptions options = {});

// How much of a phase falls to each unit, in any unit of measure.
using Shares = std::vector<double>;

// The part of [0, extent) that falls to `unit`: whole grains, in the order of the units, as near to its share as grains allow;
// what is left over goes to those that are furthest below theirs, earlier units first. Requires: some share is above 0.
Slice share_of(std::uint32_t extent, std::uint32_t grain, std::size_t unit, const Shares& shares);
// The same with equal shares: earlier units take the remainder, so the first one always has work.
inline Slice share_of(std::uint32_t extent, std::uint32_t grain, std::size_t unit, std::size_t units) {
  return share_of(extent, grain, unit, Shares(units, 1.0));
}

}  // namespace vitro
