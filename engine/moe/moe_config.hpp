// `engine.moe:` of the policies that give a mixture's experts to units of static graphs (NPUMoE).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/units.hpp"
#include "engine/moe/expert_admission.hpp"
#include "engine/moe/expert_tiers.hpp"

namespace vitro {

struct MoeConfig {
  std::vector<std::string> units;  // that run graphs; empty: the machine's units of static graphs
  bool tiers = true, groups = true, residency = true;
  bool side_by_side = true;  // launches and cores at once; else one launch after the other, then the cores
  bool attention = true;     // of a full chunk on the first unit, if it runs static graphs
  Overflow overflow = Overflow::drop;
  std::uint32_t group = 8;                        // most experts of one graph
  double cold = 0.25;                             // of a layer's experts the least loaded ones, which stay with the cores
  std::uint32_t base = 0;                         // TierRule
  std::vector<std::uint32_t> multiples{1, 2, 4};  // TierRule
  std::uint32_t capacity = 0;                     // TierRule
  std::uint32_t shape_multiple = 0;               // 0: the unit's own
  std::uint32_t graph_rows = 0;                   // steps with fewer rows use no graph; 0: a quarter of a chunk
  Picoseconds host_per_token{0};                  // and layer: what a runtime's own thread spends on packing and adding, beside kernels
  std::string calibration;                        // a recording of `vitro profile`
  ExpertLoads loads;                              // in its place
};

}  // namespace vitro
