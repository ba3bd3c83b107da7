// `engine.ffn.experts:` a mixture's experts on units of static graphs and on cores (NPUMoE).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/parts/ffn/experts/expert_admission.hpp"
#include "engine/parts/ffn/experts/expert_tiers.hpp"
#include "engine/parts/ffn/moe_stats.hpp"

namespace vitro {

struct MoeConfig {
  bool graphs = true;  // false: every expert on the cores
  bool tiers = true, groups = true, residency = true;
  bool exact = false;        // each launch has a graph of just the rows that it has, built then: what padding costs, and what shapes do
  bool side_by_side = true;  // launches and cores at once; else one launch after the other, then the cores
  Overflow overflow = Overflow::drop;
  Ranking ranking = Ranking::attention_output;  // of what overflows; where no numbers are computed, the router's weight ranks
  std::uint32_t group = 8;                        // most experts of one graph
  double cold = 0.25;                             // of a layer's experts the least loaded ones, which stay with the cores
  bool cold_by_time = false;                      // in its place: as many as cores finish while the units work
  double max_drop = 0.1;                          // TierRule
  double max_padding = 0.5;                       // GroupRule
  Bytes resident = 0;                             // most bytes of weights in the graphs of one unit; 0: no limit but the unit's
  bool comes = false;                             // graphs that units do not hold come ahead of their layers; else cores have their experts
  std::string place = "load";                     // which experts share graphs on which unit (expert_placement.hpp)
  std::string drift = "stay";                     // between requests, where the load is not that of the calibration (expert_drift.hpp)
  BaseOf base_of = BaseOf::pairs;                 // TierRule
  std::uint32_t base = 0;                         // TierRule
  std::vector<std::uint32_t> multiples{1, 2, 4};  // TierRule
  std::uint32_t capacity = 0;                     // TierRule
  std::uint32_t shape_multiple = 0;               // 0: the unit's own
  std::uint32_t graph_rows = 0;                   // steps with fewer rows use no graph; 0: a quarter of a chunk
  Picoseconds host_per_token{0};                  // and layer: what a runtime's own thread spends on packing and adding, beside kernels
  std::string calibration;                        // a recording of `vitro profile`
  ExpertLoads loads;                              // in its place
  ChunkCounts counts;                             // of the calibration, where it has whole chunks
};

// `drifts`, `places`: the names of rules that there are. Throws ConfigError.
MoeConfig read_moe(Reader reader, const std::vector<std::string>& drifts, const std::vector<std::string>& places);

}  // namespace vitro
