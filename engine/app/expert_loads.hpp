// The load of a mixture's experts, as known before a run: capacity tiers follow it (NPUMoE, section 4.1).
#pragma once
#include "engine/app/experiment.hpp"
#include "engine/model/model_config.hpp"

namespace vitro {

struct Recording;

// How often each expert was chosen in a recording of `vitro profile`. Throws ConfigError when it holds no experts, or more than the model
// has.
ExpertLoads recorded_loads(const Recording& recording, const ModelConfig& config);
// The same of a drawn workload, over tokens that no run computes: the popularity is the workload's, its tokens are not.
ExpertLoads drawn_loads(const DrawProfile& profile, std::uint64_t seed, const ModelConfig& config);

// engine.ffn.experts with its loads: those that it names, recorded ones, or those of the drawn workload. Throws ConfigError where there are
// none.
MoeConfig calibrated(const Experiment& experiment, const ModelConfig& config);

}  // namespace vitro
