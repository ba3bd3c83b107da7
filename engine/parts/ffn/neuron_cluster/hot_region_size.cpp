// How many clusters of each FFN are hot: what a split asks for, what memory holds, and what steps say of it.
#include <algorithm>

#include "engine/parts/ffn/neuron_cluster/hot_region.hpp"

namespace vitro {

// Of what stays.
std::uint32_t HotRegion::asked(const HotRegionOptions::Split& split, std::uint32_t ffn) const {
  return static_cast<std::uint32_t>(split.of(ffn) * store_.neurons() / options_.cluster_neurons) - streamed(split, ffn);
}

const HotRegionOptions::Split& HotRegion::split_of(std::uint32_t sequences) const {
  const auto fits = [sequences](const HotRegionOptions::Split& split) { return sequences <= split.sequences; };
  const auto found = std::ranges::find_if(options_.splits, fits);
  return found == options_.splits.end() ? options_.splits.back() : *found;
}

std::uint32_t HotRegion::clusters(std::uint32_t ffn, std::uint32_t sequences) const {
  const HotRegionOptions::Split& split = split_of(sequences);
  const std::uint32_t wanted = asked(split, ffn), most = this->most(sequences);
  if (store_.experts() > 1) return std::min(wanted, most);
  // Where every FFN is used for every token, the least recently used one is always the next: each gets its part of the region.
  std::uint64_t all = 0;
  for (std::uint32_t f = 0; f < ffns_.size(); ++f) all += asked(split, f);
  return all <= most ? wanted : static_cast<std::uint32_t>(std::uint64_t{wanted} * most / all);
}

std::uint32_t HotRegion::most(std::uint32_t sequences) const {
  const auto limit = fitting_.find(sequences);
  return limit == fitting_.end() ? most_ : std::min(most_, limit->second);
}

std::pair<std::uint32_t, std::uint32_t> HotRegion::next_cluster(std::int16_t layer, std::int16_t expert) const {
  const std::uint32_t f = store_.ffn_of(layer, expert), first = clusters_of(ffns_[f]) * blocks_per_cluster();
  const std::uint32_t blocks = store_.layout().blocks();
  return {f * blocks + first, std::min(blocks_per_cluster(), blocks - std::min(first, blocks))};
}

void HotRegion::used_cold(std::int16_t layer, std::int16_t expert, std::uint32_t sequences, const ColdUse& use) {
  if (layer < last_layer_) judge();
  last_layer_ = layer;
  step_sequences_ = sequences;
  step_.named += use.named;
  step_.hits += use.hits;
  if (ffns_[store_.ffn_of(layer, expert)].hot == 0) return;
  step_.near += use.near;
  step_near_ += next_cluster(layer, expert).second;
}

// A hot block saves a read in as many steps as name it; its last cluster does so at least as often as the cluster behind it. A cold one
// saves one in as many steps as find it.
void HotRegion::judge() {
  const ColdUse step = std::exchange(step_, {});
  const std::uint32_t near = std::exchange(step_near_, 0), cold = store_.cache().capacity() - store_.cache().hot_size();
  if (std::exchange(settling_, false) || hot_ == 0 || near == 0 || cold == 0 || step.named <= cold) return;
  if (std::uint64_t{step.near} * cold >= std::uint64_t{step.hits} * near) return;
  // Enough for what does not fit, were all of it to become free.
  const std::uint32_t fewer = (step.named - cold) / blocks_per_cluster() + 1;
  const std::uint32_t all = store_.experts() > 1 ? 1 : static_cast<std::uint32_t>(ffns_.size());
  fitting_[step_sequences_] = hot_ - std::min(hot_, static_cast<std::uint32_t>(round_up(fewer, all)));
  settling_ = true;
}

}  // namespace vitro
