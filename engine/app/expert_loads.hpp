// The load of a mixture's experts, as known before a run: capacity tiers follow it (NPUMoE, section 4.1).
#pragma once
#include "engine/app/experiment.hpp"
#include "engine/model/model_config.hpp"

namespace vitro {

struct Recording;

// What is known of the experts' loads before a run.
struct Calibration {
  ExpertLoads loads;
  ChunkCounts counts;  // of whole chunks; empty: there is none
};

// How often each expert was chosen in a recording of `vitro profile`. Throws ConfigError when it holds no experts, or more than the model
// has. `chunk`: rows of a step of prefill.
Calibration recorded_loads(const Recording& recording, const ModelConfig& config, std::uint32_t chunk);
// The same of a drawn workload, over tokens that no run computes: the popularity is the workload's, its tokens are not.
Calibration drawn_loads(const DrawProfile& profile, std::uint64_t seed, const ModelConfig& config, std::uint32_t chunk);

// engine.ffn.experts with its loads: those that it names, recorded ones, or those of the drawn workload. Throws ConfigError where there are
// none.
MoeConfig calibrated(const Experiment& experiment, const ModelConfig& config);

}  // namespace vitro
