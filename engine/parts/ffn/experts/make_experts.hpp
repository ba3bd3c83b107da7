// Builds the FFN of a mixture whose experts run as static graphs on an accelerator and on cores at once: NPUMoE, and the systems that it is
// compared with (its Table 2), which differ in their settings alone.
#pragma once
#include "engine/parts/ffn/experts/moe_config.hpp"
#include "engine/parts/ffn/ffn_setup.hpp"

namespace vitro {

// Requires: experts.loads, if experts go to graphs. Throws ConfigError for a model without experts, loads of another model, units that
// are not there, and shapes that the unit does not take.
Ffn make_experts(const FfnSetup& setup, const MoeConfig& experts);

}  // namespace vitro
