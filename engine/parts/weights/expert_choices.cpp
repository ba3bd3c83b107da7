// What a router's choices tell the cache of experts: what stays for the layer, what is worth how much, and what to read ahead.
#include <algorithm>

#include "engine/parts/weights/expert_residency.hpp"

namespace vitro {

void ExpertResidency::chose(std::int16_t layer, const std::vector<ExpertChoice>& choices) {
  const auto last = static_cast<std::int16_t>(pools_.front().first_layer + pools_.front().blocks.size() / pools_.front().experts - 1);
  const bool only = static_cast<std::uint32_t>(last) == pools_.front().first_layer;
  const bool new_step = layer < layer_ || (only && layer == layer_);
  if (new_step) named_.clear();  // of a step that ended early
  layer_ = layer;
  chosen_.assign(chosen_.size(), false);
  ahead_->chose(layer, choices);
  const auto named = named_.find(layer);
  for (std::size_t row = 0; row < choices.size(); ++row) {
    for (std::size_t i = 0; i < choices[row].ids.size(); ++i) {
      const std::uint16_t expert = choices[row].ids[i];
      chosen_.at(expert) = true;
      for (Pool& pool : pools_) {
        pool.cache->weigh((static_cast<std::uint32_t>(layer) - pool.first_layer) * pool.experts + expert, choices[row].weights[i]);
      }
      if (named == named_.end() || row >= named->second.size()) continue;
      ++expert_stats_.wanted;
      if (std::ranges::find(named->second[row], expert) != named->second[row].end()) ++expert_stats_.named_right;
    }
  }
  if (named != named_.end()) named_.erase(named);
  if (!wants_all(choices.size())) forget_wrong(layer);
  for (Pool& pool : pools_) {
    pool.cache->next_layer();
    if (new_step) pool.cache->next_token();
  }
  if (!options_.look_ahead || !wants_all(choices.size()) || layer >= last) return;
  read_ahead(static_cast<std::int16_t>(layer + 1), std::vector<bool>(chosen_.size(), true), true);
}

// What was foreseen of the layer and not chosen leaves, read or not: reads go on for what is wanted, and no decision hangs on how far they
// came.
void ExpertResidency::forget_wrong(std::int16_t layer) {
  for (Pool& pool : pools_) {
    const std::uint32_t first = (static_cast<std::uint32_t>(layer) - pool.first_layer) * pool.experts;
    for (std::uint32_t expert = 0; expert < pool.experts; ++expert) {
      const Block& block = pool.blocks[first + expert];
      if (!block.foreseen || chosen_[expert]) continue;
      forget({static_cast<std::size_t>(&pool - pools_.data()), first + expert});
    }
  }
  reader_.pump();
}

void ExpertResidency::foresee(std::int16_t layer, const std::vector<ExpertChoice>& choices) {
  std::vector<std::vector<std::uint16_t>>& named = named_[layer];
  named.clear();
  std::vector<bool> wanted(chosen_.size());
  for (const ExpertChoice& choice : choices) {
    named.push_back(choice.ids);
    expert_stats_.named += choice.ids.size();
  }
  ahead_->want(layer, choices, wanted);
  read_ahead(layer, wanted, false);
}

// `keeps_layer`: all experts of the layer at hand stay meanwhile, else those that its router chose.
void ExpertResidency::read_ahead(std::int16_t layer, const std::vector<bool>& wanted, bool keeps_layer) {
  for (std::uint32_t expert = 0; expert < wanted.size(); ++expert) {
    for (std::size_t p = 0; p < pools_.size() && wanted[expert]; ++p) {
      Pool& pool = pools_[p];
      const std::uint32_t first = (static_cast<std::uint32_t>(layer) - pool.first_layer) * pool.experts, block = first + expert;
      if (is_broken({p, block})) forget({p, block});
      if (pool.cache->resident(block)) continue;
      const auto held = [&](std::uint32_t b) {
        const bool at_hand = static_cast<std::int16_t>(pool.first_layer + b / pool.experts) == layer_;
        return (at_hand && (keeps_layer || chosen_[b % pool.experts])) || (b >= first && b < first + pool.experts && wanted[b - first]);
      };
      if (const auto where = pool.cache->admit_if_worth(block, held)) begin_load({p, block}, *where, false);
    }
  }
}

const ExpertCacheStats* ExpertResidency::expert_stats() const {
  expert_stats_.bytes = reader_.bytes();
  expert_stats_.reading = reader_.reading();
  return &expert_stats_;
}

}  // namespace vitro
