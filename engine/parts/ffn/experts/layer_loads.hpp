// From the shares of experts to what their slices have to hold: the step between calibration and placement.
#pragma once
#include <vector>

#include "engine/parts/ffn/experts/expert_groups.hpp"
#include "engine/parts/ffn/experts/expert_tiers.hpp"

namespace vitro {

// By layer: rows of a chunk that each expert expects, the capacity that the rule gives it, and what overflows that. Requires: as
// overflow_curves() and capacities().
std::vector<LayerLoad> layer_loads(const ExpertLoads& loads, const ChunkCounts& counts, const TierRule& rule);

}  // namespace vitro
