#include "engine/parts/ffn/neuron_cluster/cluster_plan.hpp"

#include <algorithm>
#include <utility>

namespace vitro {
namespace {

constexpr std::size_t kFewLoads = 8;  // most clusters have no more

// Where planning has got to among a group's neurons, and in the list of its cluster's blocks.
struct Place {
  const std::uint32_t* neuron;
  std::uint32_t* next_block;
  std::uint32_t last = NeuronCache::kNone;  // block
};

// Pins the blocks of the next neurons, up to `stop` or to one that is not there as a whole: most are. Apart, so that its loop has the
// registers.
[[gnu::noinline]] void pass_resident(NeuronStore& store, Place& at, const std::uint32_t* stop, std::uint32_t base, bool halves) {
  NeuronCache& cache = store.cache();
  Place place = at;
  for (; place.neuron != stop; ++place.neuron) {
    const std::uint32_t block = base + store.block_in_ffn(*place.neuron);
    if (block == place.last) continue;
    if ((halves && cache.half(block)) || !cache.pin_resident(block)) break;
    *place.next_block++ = place.last = block;
  }
  at = place;
}

void add_load(Cluster& cluster, std::uint32_t block, std::size_t at) {
  if (cluster.loads.empty()) cluster.loads.reserve(kFewLoads);
  cluster.loads.push_back({block, NeuronCache::kNone, false, static_cast<std::uint32_t>(at)});
}

// All neurons up to `stop`, or to one for which there is a load too many, where each is a block.
void pass_single(NeuronStore& store, Place& at, const std::uint32_t* stop, std::uint32_t base, std::size_t most_loads, Cluster& cluster,
                 std::vector<std::uint32_t>& apart) {
  if (at.neuron == stop) return;
  NeuronCache& cache = store.cache();
  apart.resize(std::max<std::size_t>(apart.size(), static_cast<std::size_t>(stop - at.neuron)));
  const std::size_t found = cache.pin_each({at.neuron, stop}, base, at.next_block, apart.data());
  const std::size_t before = static_cast<std::size_t>(at.next_block - cluster.blocks.data());
  std::size_t passed = static_cast<std::size_t>(stop - at.neuron);
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t block = at.next_block[apart[i]];
    if (const std::uint32_t slot = cache.slot_of(block); slot != NeuronCache::kNone) {
      if (cluster.halves.empty()) cluster.halves.reserve(found - i);
      cluster.halves.push_back({block, slot, true});
    } else if (cluster.loads.size() < most_loads) {
      add_load(cluster, block, before + apart[i]);
    } else {
      passed = apart[i];
      break;
    }
  }
  at.neuron += passed;
  at.next_block += passed;
  if (passed > 0) at.last = at.next_block[-1];
}

}  // namespace

std::vector<Cluster> plan_clusters(NeuronStore& store, std::int16_t layer, const std::vector<PlannedGroup>& groups,
                                   const ClusterPlanOptions& options) {
  NeuronCache& cache = store.cache();
  const bool halves = store.layout().first_part > 0;
  const std::size_t most_neurons = options.cluster_neurons;
  const std::uint32_t most_loads = std::max(1u, store.staging_blocks() / 2);
  std::vector<Cluster> clusters;
  std::vector<std::uint32_t> apart;
  std::size_t named = 0;
  for (const PlannedGroup& group : groups) named += group.neurons->size();
  clusters.reserve(named / most_neurons + groups.size());
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::uint32_t>& neurons = *groups[g].neurons;
    const std::uint32_t* const end = neurons.data() + neurons.size();
    const std::size_t first = clusters.size();
    Cluster* cluster = nullptr;
    const std::uint32_t *begin = neurons.data(), *full = nullptr;  // of its neurons; no block is added to it from there on
    Place at{begin, nullptr};
    const auto open = [&] {
      cluster = &clusters.emplace_back();
      cluster->group = g;
      full = begin + std::min(most_neurons, static_cast<std::size_t>(end - begin));
      cluster->blocks.resize(static_cast<std::size_t>(full - begin));  // there are no more than neurons
      at.next_block = cluster->blocks.data();
    };
    const auto close = [&] {
      cluster->blocks.resize(static_cast<std::size_t>(at.next_block - cluster->blocks.data()));
      const IndexListPool::List list = store.lists().take();
      list->assign(begin, at.neuron);
      cluster->neurons = list;
      begin = at.neuron;
    };
    open();
    const std::uint32_t base = store.block_of(layer, groups[g].group->expert, 0);
    for (;;) {
      if (store.layout().per_block == 1) {
        pass_single(store, at, full, base, most_loads, *cluster, apart);
      } else {
        pass_resident(store, at, full, base, halves);
      }
      while (at.neuron != end && base + store.block_in_ffn(*at.neuron) == at.last) ++at.neuron;  // a block belongs to one cluster
      if (at.neuron == end) break;
      const std::uint32_t block = base + store.block_in_ffn(*at.neuron);
      const bool loads = !cache.pin_resident(block);
      if (at.neuron >= full || (loads && cluster->loads.size() == most_loads)) {
        close();
        open();
      }
      if (loads) add_load(*cluster, block, static_cast<std::size_t>(at.next_block - cluster->blocks.data()));
      *at.next_block++ = at.last = block;
      ++at.neuron;
      if (!loads && halves && cache.half(block)) cluster->halves.push_back({block, cache.slot_of(block), true});
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
