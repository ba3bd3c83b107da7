// Builds the store of neuron bundles and the FFN that computes them in clusters: PowerInfer-2, and the systems that it is compared with
// (docs/design/baselines.md), which differ in their settings alone.
#pragma once
#include <memory>

#include "engine/parts/ffn/ffn_setup.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_config.hpp"
#include "engine/parts/weights/weights_setup.hpp"

namespace vitro {

// Requires: the weights hold neuron bundles. Throws ConfigError when the budget is too small.
std::unique_ptr<Residency> make_bundles(const WeightsSetup& setup, const ClusterConfig& clusters);
Ffn make_clusters(const FfnSetup& setup, const ClusterConfig& clusters);

}  // namespace vitro
