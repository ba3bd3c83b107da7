// The `engine.moe:` part of an experiment, and what its policies know of the load of experts before they run.
#pragma once
#include "engine/experiment/experiment.hpp"
#include "engine/moe/moe_policy.hpp"

namespace vitro {

struct Recording;

MoeConfig read_moe(Reader reader, const MoeFamily& family);

// How often each expert was chosen in a recording of `vitro profile`. Throws ConfigError when it holds no experts, or more than the model
// has.
ExpertLoads recorded_loads(const Recording& recording, const ModelConfig& config);
// The same of a drawn workload, over tokens that no run computes: the popularity is the workload's, its tokens are not.
ExpertLoads drawn_loads(const DrawProfile& profile, std::uint64_t seed, const ModelConfig& config);

// engine.moe with its loads: those that it names, recorded ones, or those of the drawn workload. Throws ConfigError where there are none.
MoeConfig calibrated(const Experiment& experiment, const ModelConfig& config);

}  // namespace vitro
