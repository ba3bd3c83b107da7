// The policies that carry out FFNs neuron by neuron: PowerInfer-2 and the two systems that it is compared with, on the same
// kernels, cores and budget. They differ in what they start from (docs/baselines.md) and in what their design does not have.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "engine/decode/engine_config.hpp"
#include "engine/decode/ffn_block.hpp"
#include "engine/decode/graph_cache.hpp"
#include "engine/decode/residency.hpp"

namespace vitro {

struct ClusterFamily {
  std::string_view policy, description;
  ClusterConfig defaults;
  std::vector<std::string> pipelines;  // those that its design has
  // So has loading in two phases, and an accelerator beside the cores.
  bool two_phases = false, hybrid = false;
};
const std::vector<ClusterFamily>& cluster_families();
const ClusterFamily* find_cluster_family(std::string_view policy);  // null: the policy works on whole matrices

struct ClusterSetup {
  std::vector<ComputeUnit*> units;
  ComputeUnit* io_core = nullptr;      // issues all reads
  ComputeUnit* accelerator = nullptr;  // of engine.hybrid; null: there is none
  std::uint32_t max_rows = 1;          // of a step
  Bytes keep_free = 0;                 // of the budget, for what is leased later (KV)
};
struct ClusterParts {
  std::unique_ptr<Residency> residency;
  std::unique_ptr<FfnBlock> ffn;
};
// Requires: `weights` holds neuron bundles. Throws ConfigError when the budget is too small.
ClusterParts make_cluster_policy(Machine& machine, GraphCache& graphs, const EngineConfig& engine, const MemoryConfig& memory,
                                 const ModelConfig& config, const WeightStore& weights, ClusterSetup setup);

}  // namespace vitro
