#include "engine/ffn/cluster_admission.hpp"

#include <span>
#include <utility>

namespace vitro {

void ClusterAdmission::admit(Cluster& cluster, bool every_neuron) {
  if (cluster.blocks.empty()) return;
  NeuronCache& cache = store_.cache();
  const bool counts = accesses_ != nullptr && !every_neuron;
  // In two phases only the Gate rows of what is silent have come.
  const bool halves = store_.layout().first_part > 0, two_phases = halves && !every_neuron;
  std::uint32_t hits = 0, misses = 0;
  auto load = cluster.loads.begin();
  const std::uint32_t per_block = store_.layout().per_block;
  const std::uint32_t base = cluster.blocks.front() - store_.block_in_ffn(cluster.neurons->front());
  auto neuron = cluster.active->begin();
  const auto end = cluster.active->end();
  used_.resize(cluster.blocks.size());
  for (const std::uint32_t block : cluster.blocks) {
    const std::uint32_t first = (block - base) * per_block;
    const bool active = neuron != end && *neuron - first < per_block;  // one of its neurons is
    if (per_block == 1) {
      neuron += active;
    } else {
      while (neuron != end && *neuron - first < per_block) ++neuron;
    }
    const bool loaded = load != cluster.loads.end() && load->block == block;
    const bool used = active || keep_silent_;
    if (!loaded) {
      if (halves && active && cache.half(block)) {  // has been completed
        cache.set_half(block, false);
        ++misses;
      } else {
        hits += used;
      }
      used_[used_count_] = block;
      used_count_ += used;
      continue;
    }
    if (!used) {
      cache.give_back(std::exchange(load->slot, NeuronCache::kNone));
    } else {
      note_used(every_neuron);
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
  note_used(every_neuron);
  VITRO_CHECK(neuron == end, "a neuron is active that the cluster does not have");
  hits_ += hits;
  misses_ += misses;
  // What was named was looked up, whether it was there or fired or not.
  if (!cache.holds_all()) machine_.clock.charge(PolicyWork::cache_lookup, static_cast<std::uint32_t>(cluster.blocks.size()));
  if (misses > 0) machine_.clock.charge(PolicyWork::cache_update, misses);
}

// Together, but before the next block is admitted: recency is in the order of blocks.
void ClusterAdmission::note_used(bool every_neuron) {
  NeuronCache& cache = store_.cache();
  const std::span<const std::uint32_t> used(used_.data(), std::exchange(used_count_, 0));
  if (accesses_ != nullptr && !every_neuron) accesses_->insert(accesses_->end(), used.begin(), used.end());
  if (!every_neuron && !cache.holds_all()) cache.touch(used);
}

}  // namespace vitro
