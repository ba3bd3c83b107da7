// Builds the FFN of a mixture whose experts run as static graphs on an accelerator and on cores at once: NPUMoE, and the systems that it is
// compared with (its Table 2), which differ in their settings alone.
#pragma once
#include <functional>

#include "engine/parts/ffn/experts/moe_config.hpp"
#include "engine/parts/ffn/ffn_setup.hpp"

namespace vitro {

// What computes experts that lie as neurons, on these units, for steps of so many rows over all experts, with graphs in that cache.
using MakeNeurons = std::function<std::shared_ptr<FfnBlock>(std::vector<ComputeUnit*>, std::uint32_t max_rows, GraphCache& graphs)>;

// Requires: experts.loads, if experts go to graphs. Throws ConfigError for a model without experts, loads of another model, units that
// are not there, and shapes that the unit does not take. `neurons`: none, experts are whole matrices.
Ffn make_experts(const FfnSetup& setup, const MoeConfig& experts, const MakeNeurons& neurons = {});

}  // namespace vitro
