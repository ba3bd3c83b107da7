#include "engine/ffn/cluster_plan.hpp"

#include <algorithm>
#include <utility>

namespace vitro {
namespace {

constexpr std::size_t kFewLoads = 8;  // most clusters have no more

}  // namespace

std::vector<Cluster> plan_clusters(NeuronStore& store, std::int16_t layer, const std::vector<PlannedGroup>& groups,
                                   const ClusterPlanOptions& options) {
  NeuronCache& cache = store.cache();
  const bool halves = store.layout().first_part > 0;
  const std::size_t most_neurons = options.cluster_neurons;
  const std::uint32_t most_loads = std::max(1u, store.staging_blocks() / 2);
  std::vector<Cluster> clusters;
  std::size_t named = 0;
  for (const PlannedGroup& group : groups) named += group.neurons->size();
  clusters.reserve(named / most_neurons + groups.size());
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::uint32_t>& neurons = *groups[g].neurons;
    const std::size_t first = clusters.size();
    Cluster* cluster = nullptr;
    std::uint32_t* next_block = nullptr;  // of its blocks, of which there are no more than neurons
    auto begin = neurons.begin();  // of its neurons
    const auto open = [&] {
      cluster = &clusters.emplace_back();
      cluster->group = g;
      cluster->blocks.resize(std::min(most_neurons, static_cast<std::size_t>(neurons.end() - begin)));
      next_block = cluster->blocks.data();
    };
    const auto close = [&](auto end) {
      cluster->blocks.resize(static_cast<std::size_t>(next_block - cluster->blocks.data()));
      cluster->neurons = std::make_shared<const std::vector<std::uint32_t>>(begin, end);
      begin = end;
    };
    open();
    const std::uint32_t base = store.block_of(layer, groups[g].group->expert, 0);
    std::uint32_t last = NeuronCache::kNone;
    for (auto neuron = neurons.begin(); neuron != neurons.end(); ++neuron) {
      const std::uint32_t block = base + store.block_in_ffn(*neuron);
      if (std::exchange(last, block) == block) continue;
      // A block belongs to one cluster: it is loaded and admitted once.
      const bool loads = !cache.pin_resident(block), full = static_cast<std::size_t>(neuron - begin) >= most_neurons;
      if (full || (loads && cluster->loads.size() == most_loads)) {
        close(neuron);
        open();
      }
      *next_block++ = block;
      if (loads) {
        if (cluster->loads.empty()) cluster->loads.reserve(kFewLoads);
        cluster->loads.push_back({block, NeuronCache::kNone, false});
      } else if (halves && cache.half(block)) {
        cluster->halves.push_back({block, cache.slot_of(block), true});
      }
    }
    close(neurons.end());
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
