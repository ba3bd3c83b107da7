// `engine.ffn.experts:` a mixture's experts on units of static graphs and on cores (NPUMoE).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/parts/ffn/experts/expert_admission.hpp"
#include "engine/parts/ffn/experts/expert_tiers.hpp"

namespace vitro {

struct MoeConfig {
  bool graphs = true;  // false: every expert on the cores
  bool tiers = true, groups = true, residency = true;
  bool side_by_side = true;  // launches and cores at once; else one launch after the other, then the cores
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

MoeConfig read_moe(Reader reader);

}  // namespace vitro
