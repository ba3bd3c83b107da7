#include "engine/parts/ffn/neuron_cluster/cluster_admission.hpp"

#include <utility>

namespace vitro {

// Where admission has got to: in the cluster's blocks, and in its active neurons, which are in the same order.
struct ClusterAdmission::Place {
  const std::uint32_t *block, *blocks_end, *neuron, *neurons_end;
  std::uint32_t base, per_block;  // first block of the FFN; neurons of a block

  // Whether the block has an active neuron. Passes both.
  template <bool one_by_one = false>  // a block is one neuron
  bool pass() {
    if constexpr (one_by_one) {
      const bool active = neuron != neurons_end && *neuron == *block - base;
      ++block;
      neuron += active;
      return active;
    }
    const std::uint32_t first = (*block++ - base) * per_block;
    const bool active = neuron != neurons_end && *neuron - first < per_block;
    neuron += active;
    if (per_block > 1) {
      while (neuron != neurons_end && *neuron - first < per_block) ++neuron;
    }
    return active;
  }
};

void ClusterAdmission::admit(Cluster& cluster, bool every_neuron) {
  if (cluster.blocks.empty()) return;
  NeuronCache& cache = store_.cache();
  const bool counts = accesses_ != nullptr && !every_neuron;
  // In two phases only the Gate rows of what is silent have come.
  const bool two_phases = store_.layout().first_part > 0 && !every_neuron;
  const std::uint64_t misses_before = misses_;
  const std::vector<std::uint32_t>&blocks = cluster.blocks, &neurons = *cluster.active;
  Place place{blocks.data(),
              blocks.data() + blocks.size(),
              neurons.data(),
              neurons.data() + neurons.size(),
              blocks.front() - store_.block_in_ffn(cluster.neurons->front()),
              store_.layout().per_block};
  // Where all that was named counts as used, what fired is only held against it.
  const bool named = keep_silent_ && store_.layout().first_part == 0;
  if (named && cluster.bits != nullptr) {
    pass_known(place, *cluster.bits);
  } else if (named) {
    pass_fired(place);
  } else {
    used_.resize(blocks.size());
  }
  for (BlockLoad& load : cluster.loads) {
    VITRO_CHECK(load.at < blocks.size() && blocks[load.at] == load.block, "a block was loaded that the cluster does not have");
    bool active = true;
    if (named) {
      use_named(place, blocks.data() + load.at, every_neuron);
      ++place.block;
    } else {
      pass_present(place, load.block);
      active = place.pass();
      if (!active && !keep_silent_) {
        cache.give_back(std::exchange(load.slot, NeuronCache::kNone));
        continue;
      }
      use_passed(every_neuron);
    }
    ++misses_;
    if (counts) accesses_->push_back(load.block);
    const bool admits = !every_neuron || cache.size() < cache.capacity();
    const NeuronCache::Admission admission = admits ? cache.admit(load.block, load.slot) : NeuronCache::Admission{};
    load.stays = admission.stays;
    if (two_phases && !active) {
      if (admission.stays)
        cache.set_half(load.block, true);
      else
        cache.give_back(std::exchange(load.slot, NeuronCache::kNone));
    }
    if (machine_.trace.enabled()) {
      if (admission.evicted != NeuronCache::kNone) machine_.trace.decision("evict", store_.describe(admission.evicted), "cold");
      machine_.trace.decision("load", store_.describe(load.block), load.stays ? "cold" : "staging");
    }
  }
  if (named) {
    use_named(place, place.blocks_end, every_neuron);
  } else {
    pass_present(place, NeuronCache::kNone);
    use_passed(every_neuron);
  }
  if (place.neuron != place.neurons_end) throw RunError("a unit answered with neurons that its cluster does not have");
  // What was named was looked up, whether it was there or fired or not.
  if (!cache.holds_all()) machine_.clock.charge(PolicyWork::cache_lookup, static_cast<std::uint32_t>(cluster.blocks.size()));
  if (misses_ > misses_before) machine_.clock.charge(PolicyWork::cache_update, static_cast<std::uint32_t>(misses_ - misses_before));
}

// Blocks that were there, up to block `until`. Without branches: which of them have an active neuron is as good as random. Apart, so that
// their loop has the registers.
void ClusterAdmission::pass_present(Place& at, std::uint32_t until) {
  const bool halves = store_.layout().first_part > 0;
  if (halves && at.per_block == 1) return pass_present<true, true>(at, until);
  if (halves) return pass_present<true, false>(at, until);
  if (at.per_block == 1) return pass_present<false, true>(at, until);
  pass_present<false, false>(at, until);
}

template <bool halves, bool one_by_one>
[[gnu::noinline]] void ClusterAdmission::pass_present(Place& at, std::uint32_t until) {
  const bool keep_silent = keep_silent_;
  Place place = at;
  std::uint32_t *const begin = used_.data() + used_count_, *used = begin;
  std::uint64_t completed = 0;
  while (place.block != place.blocks_end && *place.block != until) {
    const std::uint32_t block = *place.block;
    const bool active = place.pass<one_by_one>();
    *used = block;
    used += active | keep_silent;
    if (halves && active && store_.cache().half(block)) {
      store_.cache().set_half(block, false);
      ++completed;
    }
  }
  at = place;
  used_count_ += static_cast<std::size_t>(used - begin);
  misses_ += completed;
  hits_ += static_cast<std::uint64_t>(used - begin) - completed;
}

// Neurons that the cluster has, all or none, where each is a block: those with a bit, since check_active() has seen that they lie between
// its first and its last one. Each is looked up by itself, so that none waits for the one before it.
[[gnu::noinline]] void ClusterAdmission::pass_known(Place& at, const std::vector<std::uint64_t>& bits) {
  std::size_t unknown = 0;
  for (const std::uint32_t* neuron = at.neuron; neuron != at.neurons_end; ++neuron) unknown += ~bits[*neuron / 64] >> *neuron % 64 & 1;
  if (unknown == 0) at.neuron = at.neurons_end;
}

// All blocks, which stay where they are, and the neurons that they have.
[[gnu::noinline]] void ClusterAdmission::pass_fired(Place& at) {
  Place place = at;
  if (place.per_block == 1) {
    while (place.block != place.blocks_end) place.pass<true>();
  } else {
    while (place.block != place.blocks_end) place.pass();
  }
  at.neuron = place.neuron;
}

void ClusterAdmission::use_named(Place& at, const std::uint32_t* until, bool every_neuron) {
  const std::span<const std::uint32_t> named(std::exchange(at.block, until), until);
  hits_ += named.size();
  use(named, every_neuron);
}

void ClusterAdmission::use_passed(bool every_neuron) { use({used_.data(), std::exchange(used_count_, 0)}, every_neuron); }

// Together, but before the next block is admitted: recency is in the order of blocks.
void ClusterAdmission::use(std::span<const std::uint32_t> blocks, bool every_neuron) {
  NeuronCache& cache = store_.cache();
  if (accesses_ != nullptr && !every_neuron) accesses_->insert(accesses_->end(), blocks.begin(), blocks.end());
  if (!every_neuron && !cache.holds_all()) cache.touch(blocks);
}

}  // namespace vitro
