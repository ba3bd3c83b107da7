// Cuts the neurons of a step into clusters and says what each has to load.
#pragma once
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"

namespace vitro {

struct ClusterPlanOptions {
  std::uint32_t cluster_neurons = 64;  // most that one cluster computes
  std::uint32_t partials = ~0u;        // most partial sums of one group: beyond, clusters add to the one before them
};

// One group's neurons: those that the predictor named, or all.
struct PlannedGroup {
  const FfnGroup* group = nullptr;
  NamedNeurons neurons;
};

// In neuron order, group by group. Resident blocks are pinned; nothing is evicted or loaded yet. No cluster loads more than
// half of the staging slots, so that one can be read while another is computed; a wave loads at most all of them.
std::vector<Cluster> plan_clusters(NeuronStore& store, std::int16_t layer, const std::vector<PlannedGroup>& groups,
                                   const ClusterPlanOptions& options);

}  // namespace vitro
