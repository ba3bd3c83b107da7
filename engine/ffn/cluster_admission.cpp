#include "engine/ffn/cluster_admission.hpp"

#include <utility>

namespace vitro {

void ClusterAdmission::admit(Cluster& cluster, bool every_neuron) {
  if (cluster.blocks.empty()) return;
  NeuronCache& cache = store_.cache();
  const bool counts = accesses_ != nullptr && !every_neuron;
  // In two phases only the Gate rows of what is silent have come.
  const bool two_phases = store_.layout().first_part > 0 && !every_neuron;
  std::uint32_t hits = 0, misses = 0;
  auto load = cluster.loads.begin();
  const std::uint32_t base = cluster.blocks.front() - store_.block_in_ffn(cluster.neurons->front());
  auto neuron = cluster.active->begin();
  for (const std::uint32_t block : cluster.blocks) {
    bool active = false;  // one of its neurons is
    for (; neuron != cluster.active->end() && base + store_.block_in_ffn(*neuron) == block; ++neuron) active = true;
    const bool loaded = load != cluster.loads.end() && load->block == block;
    const bool used = active || keep_silent_;
    if (!loaded) {
      if (!used) continue;
      const bool completed = active && cache.half(block);
      if (completed) cache.set_half(block, false);
      ++(completed ? misses : hits);
      if (counts) accesses_->push_back(block);
      if (!every_neuron && !cache.holds_all()) cache.touch(block);
      continue;
    }
    if (!used) {
      cache.give_back(std::exchange(load->slot, NeuronCache::kNone));
    } else {
      ++misses;
      if (counts) accesses_->push_back(block);
      const bool admits = !every_neuron || cache.size() < cache.capacity();
      const NeuronCache::Admission admission = admits ? cache.admit(block, load->slot) : NeuronCache::Admission{};
      load->stays = admission.stays;
      if (two_phases && !active) {
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
  VITRO_CHECK(neuron == cluster.active->end(), "a neuron is active that the cluster does not have");
  hits_ += hits;
  misses_ += misses;
  // What was named was looked up, whether it was there or fired or not.
  if (!cache.holds_all()) machine_.clock.charge(PolicyWork::cache_lookup, static_cast<std::uint32_t>(cluster.blocks.size()));
  if (misses > 0) machine_.clock.charge(PolicyWork::cache_update, misses);
}

}  // namespace vitro
