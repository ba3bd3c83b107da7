#include "engine/parts/ffn/neuron_cluster/cluster_plan.hpp"

#include <algorithm>
#include <span>

namespace vitro {
namespace {

constexpr std::size_t kFewLoads = 8;  // most clusters have no more

struct ClusterLimits {
  std::size_t neurons, loads;  // most of a cluster
};

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

// A group of which each block is a neuron. What is not there is known before it is cut, so that nobody has to ask neuron by neuron.
class SingleBlocks {
 public:
  SingleBlocks(NeuronStore& store, const NamedNeurons& neurons, std::uint32_t base)
      : store_(store),
        neurons_(*neurons.list),
        bits_(base % BlockBits::kWord == 0 ? neurons.bits : nullptr),
        base_(base),
        apart_(neurons_.size()) {
    apart_.resize(store.cache().pin_each(neurons_, base, bits_.get(), apart_.data()));
  }

  bool at_end() const { return begin_ == neurons_.size(); }

  // Gives a cluster its next neurons.
  void fill(Cluster& cluster, const ClusterLimits& limits) {
    std::size_t end = std::min(begin_ + limits.neurons, neurons_.size());
    for (; next_ < apart_.size() && apart_[next_] < end; ++next_) {
      const std::uint32_t block = base_ + neurons_[apart_[next_]];
      if (const std::uint32_t slot = store_.cache().slot_of(block); slot != NeuronCache::kNone) {
        cluster.halves.push_back({block, slot, true});
      } else if (cluster.loads.size() < limits.loads) {
        add_load(cluster, block, apart_[next_] - begin_);
      } else {
        end = apart_[next_];
        break;
      }
    }
    const std::span<const std::uint32_t> its(neurons_.data() + begin_, end - begin_);
    cluster.blocks.resize(its.size());
    for (std::size_t i = 0; i < its.size(); ++i) cluster.blocks[i] = base_ + its[i];
    const IndexListPool::List list = store_.lists().take();
    list->assign(its.begin(), its.end());
    cluster.neurons = list;
    cluster.bits = bits_;
    begin_ = end;
  }

 private:
  NeuronStore& store_;
  const std::vector<std::uint32_t>& neurons_;
  IndexBits bits_;
  std::uint32_t base_;
  std::vector<std::uint32_t> apart_;  // positions in `neurons` of what is not there as a whole
  std::size_t begin_ = 0, next_ = 0;  // in `neurons`, and in `apart`
};

void cut_single(NeuronStore& store, const NamedNeurons& neurons, std::uint32_t base, const ClusterLimits& limits,
                std::vector<Cluster>& clusters) {
  SingleBlocks blocks(store, neurons, base);
  do {
    blocks.fill(clusters.emplace_back(), limits);
  } while (!blocks.at_end());
}

// A group of which several neurons are a block.
void cut_shared(NeuronStore& store, const std::vector<std::uint32_t>& neurons, std::uint32_t base, const ClusterLimits& limits,
                std::vector<Cluster>& clusters) {
  NeuronCache& cache = store.cache();
  const bool halves = store.layout().first_part > 0;
  const std::uint32_t* const end = neurons.data() + neurons.size();
  Cluster* cluster = nullptr;
  const std::uint32_t *begin = neurons.data(), *full = nullptr;  // of its neurons; no block is added to it from there on
  Place at{begin, nullptr};
  const auto open = [&] {
    cluster = &clusters.emplace_back();
    full = begin + std::min(limits.neurons, static_cast<std::size_t>(end - begin));
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
  for (;;) {
    pass_resident(store, at, full, base, halves);
    while (at.neuron != end && base + store.block_in_ffn(*at.neuron) == at.last) ++at.neuron;  // a block belongs to one cluster
    if (at.neuron == end) break;
    const std::uint32_t block = base + store.block_in_ffn(*at.neuron);
    const bool loads = !cache.pin_resident(block);
    if (at.neuron >= full || (loads && cluster->loads.size() == limits.loads)) {
      close();
      open();
    }
    if (loads) add_load(*cluster, block, static_cast<std::size_t>(at.next_block - cluster->blocks.data()));
    *at.next_block++ = at.last = block;
    ++at.neuron;
    if (!loads && halves && cache.half(block)) cluster->halves.push_back({block, cache.slot_of(block), true});
  }
  close();
}

}  // namespace

std::vector<Cluster> plan_clusters(NeuronStore& store, std::int16_t layer, const std::vector<PlannedGroup>& groups,
                                   const ClusterPlanOptions& options) {
  const ClusterLimits limits{options.cluster_neurons, std::max(1u, store.staging_blocks() / 2)};
  std::vector<Cluster> clusters;
  std::size_t named = 0;
  for (const PlannedGroup& group : groups) named += group.neurons.list->size();
  clusters.reserve(named / limits.neurons + groups.size());
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const NamedNeurons& neurons = groups[g].neurons;
    const std::size_t first = clusters.size();
    const std::uint32_t base = store.block_of(layer, groups[g].group->expert, 0);
    if (store.layout().per_block == 1) {
      cut_single(store, neurons, base, limits, clusters);
    } else {
      cut_shared(store, *neurons.list, base, limits, clusters);
    }
    const auto count = static_cast<std::uint32_t>(clusters.size() - first), partials = std::min(count, options.partials);
    for (std::uint32_t i = 0; i < count; ++i) {
      Cluster& cluster = clusters[first + i];
      cluster.group = g;
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
