// Which matrices of a mixture's experts are in DRAM, and in which slot: those of one role. Pure bookkeeping, the same for whole experts as
// NeuronCache is for their neurons, by the same rules of eviction. Blocks are matrices, numbered over all layers and experts.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/parts/weights/eviction.hpp"

namespace vitro {

class ExpertPool {
 public:
  static constexpr std::uint32_t kNone = ~0u;
  using Held = std::function<bool(std::uint32_t block)>;

  // Requires: slots > 0.
  ExpertPool(std::uint32_t blocks, std::uint32_t slots, std::unique_ptr<Eviction> rule);

  bool resident(std::uint32_t block) const { return slot_of_[block] != kNone; }
  std::uint32_t slot_of(std::uint32_t block) const { return slot_of_[block]; }  // kNone: not resident
  std::uint32_t slots() const { return static_cast<std::uint32_t>(block_in_.size()); }
  std::uint32_t kept() const { return kept_count_; }
  bool keeps(std::uint32_t block) const { return kept_[block]; }

  struct Place {
    std::uint32_t slot = 0;
    std::uint32_t evicted = kNone;
  };
  // A place for a block that will be computed: it comes whatever it is worth. What the rule would not admit passes through: it goes before
  // all else once a few such blocks are there. `soft`: what should stay as well, where that is possible. None: `hard` holds all slots back.
  // Requires: not resident.
  std::optional<Place> admit(std::uint32_t block, const Held& hard, const Held& soft);
  // The same for a block that may be wanted: none, where the rule has nothing to give up for it.
  std::optional<Place> admit_if_worth(std::uint32_t block, const Held& held);

  void touch(std::uint32_t block);  // Requires: resident
  void expect(std::uint32_t block, double uses) { rule_->expect(block, uses); }   // Eviction::expect
  void weigh(std::uint32_t block, float weight) { rule_->weigh(block, weight); }  // Eviction::weigh; resident or not
  void keep(std::uint32_t block);   // for good. Requires: resident
  void drop(std::uint32_t block);   // it is not there after all. Requires: resident, not kept

  void next_layer() { rule_->next_layer(); }
  // Blocks that the rule no longer wants have left.
  void next_token();

 private:
  std::optional<std::uint32_t> passing(const Held& held) const;
  std::optional<Place> replace(std::uint32_t block, const Held& held, bool must);
  std::optional<Place> put_in_free(std::uint32_t block);
  Place put(std::uint32_t block, std::uint32_t slot, std::uint32_t evicted, bool passes);

  std::vector<std::uint32_t> slot_of_, block_in_;  // by block; by slot, kNone: free
  std::vector<bool> kept_;                         // by block
  std::deque<std::uint32_t> passing_;              // blocks that pass through, the oldest first; the rule does not know them
  std::uint32_t kept_count_ = 0, free_ = 0;
  std::unique_ptr<Eviction> rule_;
};

}  // namespace vitro
