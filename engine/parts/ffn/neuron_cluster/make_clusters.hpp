// Builds the store of neuron bundles and the FFN that computes them in clusters: PowerInfer-2, and the systems that it is compared with
// (docs/design/baselines.md), which differ in their settings alone.
#pragma once
#include <memory>

#include "engine/parts/ffn/ffn_setup.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_config.hpp"
#include "engine/parts/weights/weights_setup.hpp"

namespace vitro {

// Where neurons are kept, by the kind of weights.
enum class NeuronsIn : std::uint8_t {
  cache,   // as `engine.weights` says
  dram,    // all of them, for good
  pages,   // least recently used blocks go; a read blocks the core that issues it
  stream,  // what fits stays, and the rest is read in every step that needs it
};
// Requires: the weights hold neuron bundles. Throws ConfigError when the budget is too small.
std::unique_ptr<Residency> make_bundles(const WeightsSetup& setup, const ClusterConfig& clusters, NeuronsIn in);
// Requires: residency.neurons().
Ffn make_clusters(const FfnSetup& setup, ClusterConfig clusters);
// Every neuron of groups that come with their rows, on these units: experts that somebody else lays out.
std::shared_ptr<FfnBlock> make_neurons(const FfnSetup& setup, const ClusterConfig& clusters, std::vector<ComputeUnit*> units,
                                       std::uint32_t max_rows, GraphCache& graphs);
// The same, but for an FFN that leaves no neuron out.
ClusterConfig every_neuron(ClusterConfig clusters);

}  // namespace vitro
