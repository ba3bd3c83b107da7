// The policies for mixtures beside an accelerator of static graphs: NPUMoE, and the systems that it is compared with (its Table 2), on the
// same kernels, cores and budget. They differ in what they give to the accelerator.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "engine/decode/engine_config.hpp"
#include "engine/decode/offload_unit.hpp"
#include "engine/decode/transformer.hpp"
#include "engine/moe/tiered_experts.hpp"

namespace vitro {

struct MoeFamily {
  std::string_view policy, description;
  bool experts = false, attention = false;  // on the accelerator
  MoeConfig defaults = {};
};
const std::vector<MoeFamily>& moe_families();
const MoeFamily* find_moe_family(std::string_view policy);  // null: it is none of them

struct MoeParts {
  std::unique_ptr<Residency> residency;  // load() also loads the graphs
  std::unique_ptr<TieredExperts> experts;
  std::unique_ptr<OffloadUnit> attention;  // a core that hands a chunk's attention over; null: cores share it
};
// Requires: engine.moe.loads, if experts go to graphs. Throws ConfigError for a model without experts, loads of another model, units that
// are not there, and shapes that the unit does not take.
MoeParts make_moe_policy(Machine& machine, const EngineConfig& engine, const ModelConfig& config, const WeightStore& weights,
                         std::vector<ComputeUnit*> cores, std::uint32_t max_rows);

// Units and splits of the transformer around these parts: a full chunk's attention is the offloading core's, the rest the cores'.
void set_units(const MoeParts& parts, std::uint32_t chunk, std::vector<ComputeUnit*> cores, TransformerOptions& options);

// The transformer's attention graphs are loaded with the others. Requires: `residency` is one that make_moe_policy() made.
void load_with(Residency& residency, Transformer& transformer);

}  // namespace vitro
