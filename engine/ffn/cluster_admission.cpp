#include "engine/ffn/cluster_admission.hpp"

#include <utility>

namespace vitro {

// Of cluster.blocks: those with an active neuron.
std::vector<std::uint8_t> ClusterAdmission::active_blocks(const Cluster& cluster) const {
  std::vector<std::uint8_t> active(cluster.blocks.size());
  std::size_t b = 0;
  std::uint32_t base = 0;
  if (!cluster.blocks.empty()) base = cluster.blocks.front() - store_.block_in_ffn(cluster.neurons->front());
  for (const std::uint32_t neuron : *cluster.active) {
    while (cluster.blocks[b] != base + store_.block_in_ffn(neuron)) ++b;
    active[b] = 1;
  }
  return active;
}

void ClusterAdmission::admit(Cluster& cluster, bool every_neuron) {
  NeuronCache& cache = store_.cache();
  const std::vector<std::uint8_t> active = active_blocks(cluster);
  // In two phases only the Gate rows of what is silent have come.
  const bool two_phases = store_.layout().first_part > 0 && !every_neuron;
  std::uint32_t hits = 0, misses = 0;
  auto load = cluster.loads.begin();
  for (std::size_t b = 0; b < cluster.blocks.size(); ++b) {
    const std::uint32_t block = cluster.blocks[b];
    const bool loaded = load != cluster.loads.end() && load->block == block;
    const bool used = active[b] != 0 || keep_silent_;
    if (!loaded) {
      if (!used) continue;
      const bool completed = active[b] != 0 && cache.half(block);
      if (completed) cache.set_half(block, false);
      ++(completed ? misses : hits);
      if (accesses_ != nullptr && !every_neuron) accesses_->push_back(block);
      if (!every_neuron && !cache.holds_all()) cache.touch(block);
      continue;
    }
    if (!used) {
      cache.give_back(std::exchange(load->slot, NeuronCache::kNone));
    } else {
      ++misses;
      if (accesses_ != nullptr && !every_neuron) accesses_->push_back(block);
      const bool admits = !every_neuron || cache.size() < cache.capacity();
      const NeuronCache::Admission admission = admits ? cache.admit(block, load->slot) : NeuronCache::Admission{};
      load->stays = admission.stays;
      if (two_phases && active[b] == 0) {
        if (admission.stays)
          cache.set_half(block, true);
        else
          cache.give_back(std::exchange(load->slot, NeuronCache::kNone));
      }
      if (machine_.trace.enabled()) {
        if (admission.evicted != NeuronCache::kNone) machine_.trace.decision("evict", store_.describe(admission.evicted), "cold");
        machine_.trace.decision("load", store_.describe(block), load->stays ? "cold" : "staging");
      }
    }
    ++load;
  }
  hits_ += hits;
  misses_ += misses;
  if (hits > 0 && !cache.holds_all()) machine_.clock.charge(PolicyWork::cache_lookup, hits);
  if (misses > 0) machine_.clock.charge(PolicyWork::cache_update, misses);
}

}  // namespace vitro
