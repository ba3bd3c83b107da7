// The parts of a decoder by name: one registry for each kind of part, filled by one explicit function each. A plug-in may add to them
// before a run (docs/guide/composing-an-engine.md).
#pragma once
#include "engine/base/registry.hpp"
#include "engine/parts/attention/kv_keep.hpp"
#include "engine/parts/engine_config.hpp"
#include "engine/parts/ffn/experts/expert_drift.hpp"
#include "engine/parts/ffn/experts/expert_placement.hpp"
#include "engine/parts/ffn/ffn_setup.hpp"
#include "engine/parts/weights/eviction.hpp"
#include "engine/parts/weights/look_ahead_rule.hpp"
#include "engine/parts/placement/placement.hpp"
#include "engine/parts/weights/weights_setup.hpp"

namespace vitro {

struct WeightsKind {
  std::string name, description;
  // `ffn`: what the part that computes FFNs asks of the weights that it reads.
  std::unique_ptr<Residency> (*make)(const WeightsSetup&, const FfnConfig& ffn) = nullptr;
};
struct FfnKind {
  std::string name, description;
  Ffn (*make)(const FfnSetup&, const FfnConfig&) = nullptr;
};

Registry<WeightsKind>& weights_kinds();
Registry<FfnKind>& ffn_kinds();
Registry<PlacementKind>& placement_kinds();

}  // namespace vitro
