#include "engine/ffn/cluster_plan.hpp"

#include <algorithm>

namespace vitro {

std::vector<Cluster> plan_clusters(NeuronStore& store, std::int16_t layer, const std::vector<PlannedGroup>& groups,
                                   const ClusterPlanOptions& options) {
  NeuronCache& cache = store.cache();
  const std::uint32_t most_loads = std::max(1u, store.staging_blocks() / 2);
  std::vector<Cluster> clusters;
  std::size_t named = 0;
  for (const PlannedGroup& group : groups) named += group.neurons->size();
  clusters.reserve(named / options.cluster_neurons + groups.size());
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::uint32_t>& neurons = *groups[g].neurons;
    const std::size_t first = clusters.size();
    std::shared_ptr<std::vector<std::uint32_t>> members;
    const auto open = [&] {
      members = std::make_shared<std::vector<std::uint32_t>>();
      members->reserve(std::min<std::size_t>(options.cluster_neurons, neurons.size()));
      clusters.emplace_back();
      clusters.back().group = g;
      clusters.back().blocks.reserve(members->capacity());
    };
    const auto close = [&] { clusters.back().neurons = std::move(members); };
    open();
    const std::uint32_t base = store.block_of(layer, groups[g].group->expert, 0);
    for (const std::uint32_t neuron : neurons) {
      const std::uint32_t block = base + store.block_in_ffn(neuron);
      const bool next_block = clusters.back().blocks.empty() || clusters.back().blocks.back() != block;
      const bool loads = next_block && !cache.resident(block);
      // A block belongs to one cluster: it is loaded and admitted once.
      if (next_block && (members->size() >= options.cluster_neurons || (loads && clusters.back().loads.size() == most_loads))) {
        close();
        open();
      }
      if (next_block) {
        clusters.back().blocks.push_back(block);
        if (loads) {
          clusters.back().loads.push_back({block, NeuronCache::kNone, false});
        } else {
          cache.pin(block);
          if (cache.half(block)) clusters.back().halves.push_back({block, cache.slot_of(block), true});
        }
      }
      members->push_back(neuron);
    }
    close();
    const auto count = static_cast<std::uint32_t>(clusters.size() - first), partials = std::min(count, options.partials);
    for (std::uint32_t i = 0; i < count; ++i) {
      Cluster& cluster = clusters[first + i];
      cluster.partial = static_cast<std::uint32_t>(std::uint64_t{i} * partials / count);
      cluster.continues = i > 0 && clusters[first + i - 1].partial == cluster.partial;
    }
  }
  std::uint32_t wave = 0;
  std::size_t in_wave = 0;
  for (Cluster& cluster : clusters) {
    if (in_wave + cluster.loads.size() > store.staging_blocks()) {
      ++wave;
      in_wave = 0;
    }
    in_wave += cluster.loads.size();
    cluster.wave = wave;
  }
  return clusters;
}

}  // namespace vitro
