// The decode policies by name. Later ones (expert tiers) register here.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/decode/engine_config.hpp"
#include "engine/decode/transformer.hpp"
#include "engine/moe/moe_stats.hpp"

namespace vitro {

// What the engine keeps beside weights and activations: names, extents and page records. Charged so that the budget is that of the
// whole process.
Bytes runtime_bytes(const ModelConfig& config, Bytes weight_bytes, std::size_t weights);

struct PolicyInfo {
  std::string_view name, description;
};
const std::vector<PolicyInfo>& policies();

struct PolicyLimits {
  std::uint32_t max_rows = 1, max_sampled = 1, max_tokens = 1, max_position = 1, sequences = 1;
};

// A residency and the transformer that runs over it. Lives on one machine and dies before it.
struct Policy {
  std::unique_ptr<GraphCache> graphs;
  std::unique_ptr<WeightStore> in_dram;      // all weights but the embedding; null: all of them
  std::unique_ptr<EmbeddingRows> embedding;  // null: it is among the weights
  std::unique_ptr<ComputeUnit> offload;      // null: no accelerator takes part
  std::unique_ptr<Residency> residency;
  std::unique_ptr<Residency> copy;    // of layers' products in another form; null: there is none
  std::unique_ptr<FfnBlock> ffn;      // null: the transformer's phases carry out FFNs as well
  const MoeStats* experts = nullptr;  // null: the policy does not lay out experts
  std::unique_ptr<Transformer> transformer;
  Lease runtime;  // what the engine itself keeps per model, charged to the budget
};

// `copy`: the products of layers once more, as the accelerator of the llm_npu policy reads them; null for others.
// Throws ConfigError for an unknown policy, for units that the machine lacks, and for a budget that is too small.
Policy make_policy(Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& config,
                   const WeightStore& weights, const PolicyLimits& limits, const WeightStore* copy = nullptr);

}  // namespace vitro
