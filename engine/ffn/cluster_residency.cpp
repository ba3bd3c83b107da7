#include "engine/ffn/cluster_residency.hpp"

namespace vitro {

std::vector<std::uint32_t>* ClusterResidency::keep_accesses() {
  keeps_accesses_ = true;
  return &accesses_;
}

void ClusterResidency::decode_begins() {
  accesses_.clear();
  resident_ = store_.cache().resident_blocks();
}

std::optional<double> ClusterResidency::hit_rate_bound() const {
  if (!keeps_accesses_ || accesses_.empty()) return std::nullopt;
  const std::uint64_t hits = belady_hits(accesses_, store_.cache().capacity(), resident_);
  return static_cast<double>(hits) / static_cast<double>(accesses_.size());
}

}  // namespace vitro
