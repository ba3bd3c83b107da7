// How many experts of a layer the cores compute while the units compute the rest, from the price of both (beside section 4.3 of NPUMoE,
// which goes by popularity).
#pragma once
#include <cstdint>
#include <vector>

#include "engine/parts/ffn/experts/expert_groups.hpp"

namespace vitro {

// Seconds of one layer's work, by which placements are compared. All of it is linear in between and beyond.
struct ExpertPrices {
  double launch = 0;      // of a graph after another one, apart from its experts
  double per_expert = 0;  // of a graph: its weights
  double per_row = 0;     // of a slice
  double core_expert = 0, core_row = 0;  // of an expert on all cores together

  double of_launch(const StaticGroup& group) const {
    return launch + static_cast<double>(group.experts.size()) * (per_expert + per_row * group.capacity);
  }
  double on_cores(double rows) const { return rows > 0 ? core_expert + core_row * rows : 0; }
};

// The time that the layer takes with units and cores at once: the longest of them. Units run their groups one after the other.
double layer_seconds(const LayerLoad& load, const LayerPlacement& placement, const GroupRule& rule, const ExpertPrices& prices);

// The placement that takes the least time of those that leave the least loaded experts to the cores, and have no more than `graphs`
// graphs; of equal ones that with the fewest experts on cores. rule.cold and rule.cold_rows do not count, and rule.launch_rows only where
// it saves time.
LayerPlacement place_by_time(const LayerLoad& load, const GroupRule& rule, const ExpertPrices& prices,
                             std::uint64_t graphs = ~std::uint64_t{0});

}  // namespace vitro
