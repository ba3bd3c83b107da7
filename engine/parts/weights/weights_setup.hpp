// What a part that keeps weights is made from.
#pragma once
#include "engine/parts/placement/placement.hpp"
#include "engine/parts/weights/residency.hpp"
#include "engine/parts/weights/weights_config.hpp"

namespace vitro {

struct WeightsSetup {
  Machine& machine;
  const WeightStore& weights;
  const ModelConfig& model;
  const WeightsConfig& config;
  const UnitPlacement& placement;
  std::optional<double> ffn_in_dram;  // share of FFN bytes that may stay; none: what the budget leaves room for
  Bytes keep_free = 0;                // of the budget, for what is leased later (KV, an accelerator's copy)
};

}  // namespace vitro
