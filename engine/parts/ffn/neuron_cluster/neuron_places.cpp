// Where neurons lie in the arena: asked twice of every neuron that is named, so these loops are apart.
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"

namespace vitro {

// Where a block is one neuron its number costs no multiplication, and there is nothing before it in its slot.
std::size_t NeuronStore::places(std::span<const std::uint32_t> neurons, std::uint32_t base, std::uint32_t* into,
                                std::uint32_t* missing) const {
  const NeuronCache& cache = *cache_;
  std::size_t found = 0;
  if (layout_.per_block == 1) {
    const Bytes slot_bytes = slot_;
    for (std::size_t i = 0, count = neurons.size(); i < count; ++i) {
      const std::uint32_t slot = cache.slot_of(base + neurons[i]);
      into[i] = static_cast<std::uint32_t>(slot * slot_bytes / kRowOffsetUnit);
      if (slot == NeuronCache::kNone) [[unlikely]]
        missing[found++] = static_cast<std::uint32_t>(i);
    }
    return found;
  }
  for (std::size_t i = 0, count = neurons.size(); i < count; ++i) {
    const std::uint32_t slot = cache.slot_of(base + block_in_ffn(neurons[i]));
    into[i] = place(neurons[i], slot);
    if (slot == NeuronCache::kNone) [[unlikely]]
      missing[found++] = static_cast<std::uint32_t>(i);
  }
  return found;
}

std::size_t NeuronStore::places(std::span<const std::uint32_t> neurons, std::uint32_t base, std::uint32_t* into) const {
  const std::uint32_t* const slots = cache_->slots_from(base);
  const auto slot_lines = static_cast<std::uint32_t>(slot_ / kRowOffsetUnit);  // a block's rows are whole ones
  std::size_t present = 0;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < neurons.size(); ++i) {
    const std::uint32_t slot = slots[neurons[i]];
    into[i] = slot * slot_lines;
    present += slot < NeuronCache::kNone ? 1 : 0;
  }
  return neurons.size() - present;
}

}  // namespace vitro
