// Which graphs of expert groups units hold for good ("a small resident working set", NPUMoE 4.3): chosen over all layers at once, by the
// load of their experts, by bytes and by number of graphs.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/base/units.hpp"
#include "engine/parts/ffn/experts/expert_groups.hpp"

namespace vitro {

// What a unit still takes.
struct UnitRoom {
  std::uint32_t graphs = ~0u;
  Bytes bytes = ~Bytes{0};   // of weights
  std::uint32_t spare = 0;   // of `graphs`, kept free for those that come ahead of their layer; 0: none come
};

struct ResidentSet {
  std::vector<LayerPlacement> layers;
  std::uint32_t held = 0;       // graphs that stay on their unit
  std::uint32_t coming = 0;     // that are loaded ahead of each use
  std::uint32_t left = 0;       // that fit nowhere: the cores compute their experts
  double left_share = 0;        // of all expected rows, those of experts that were left
};

// The groups of all layers that expect the most rows stay, the earlier layer's where they expect alike. Those that do not fit come ahead
// of their layer where units keep graphs spare for that, else they are the cores'. Within a layer the unit with the fewest experts has the
// next graph, as long as it holds no more than its share of the layers so far. Requires: an entry of `loads` for each layer, and a room
// for each unit that a group names.
ResidentSet choose_resident(const std::vector<LayerPlacement>& layers, const std::vector<LayerLoad>& loads, Bytes expert_bytes,
                            std::vector<UnitRoom> rooms);

}  // namespace vitro
