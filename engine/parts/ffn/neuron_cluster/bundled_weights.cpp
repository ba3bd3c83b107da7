#include "engine/parts/ffn/neuron_cluster/bundled_weights.hpp"

namespace vitro {

void BundledWeights::decode_begins() {
  if (store_.accesses() == nullptr) return;
  store_.accesses()->clear();
  resident_ = store_.cache().resident_blocks();
}

std::optional<double> BundledWeights::hit_rate_bound() const {
  const std::vector<std::uint32_t>* accesses = store_.accesses();
  if (accesses == nullptr || accesses->empty()) return std::nullopt;
  const std::uint64_t hits = belady_hits(*accesses, store_.cache().capacity(), resident_);
  return static_cast<double>(hits) / static_cast<double>(accesses->size());
}

}  // namespace vitro
