#include "engine/parts/weights/expert_pool.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

constexpr std::size_t kPassing = 2;  // one is computed while the next one is read

}  // namespace

ExpertPool::ExpertPool(std::uint32_t blocks, std::uint32_t slots, std::unique_ptr<Eviction> rule)
    : slot_of_(blocks, kNone), block_in_(slots, kNone), kept_(blocks), free_(slots), rule_(std::move(rule)) {
  VITRO_CHECK(slots > 0, "a pool of experts without slots");
}

std::optional<std::uint32_t> ExpertPool::passing(const Held& held) const {
  const auto found = std::ranges::find_if(passing_, [&](std::uint32_t block) { return !held(block); });
  return found == passing_.end() ? std::nullopt : std::optional(*found);
}

ExpertPool::Place ExpertPool::put(std::uint32_t block, std::uint32_t slot, std::uint32_t evicted, bool passes) {
  block_in_[slot] = block;
  slot_of_[block] = slot;
  --free_;
  if (passes) {
    passing_.push_back(block);
  } else {
    rule_->insert(block);
  }
  return {slot, evicted};
}

// Of what is there the first that goes: by the rule; of what passes through; at any price.
std::optional<ExpertPool::Place> ExpertPool::replace(std::uint32_t block, const Held& held, bool must) {
  rule_->newcomer(block);
  rule_->release();  // what is in use changes all the time
  std::optional<std::uint32_t> victim = rule_->victim(held);
  const bool passes = !victim;
  if (passes && !must) return std::nullopt;
  if (!victim && passing_.size() >= kPassing) victim = passing(held);
  if (!victim) victim = rule_->victim_at_any_price(held);
  if (!victim) {  // the rule gives nothing up
    const auto any = std::ranges::find_if(block_in_, [&](std::uint32_t b) {
      return b != kNone && !kept_[b] && !held(b) && std::ranges::find(passing_, b) == passing_.end();
    });
    if (any != block_in_.end()) victim = *any;
  }
  if (!victim) victim = passing(held);
  if (!victim) return std::nullopt;
  const std::uint32_t slot = slot_of_[*victim];
  drop(*victim);
  return put(block, slot, *victim, passes);
}

std::optional<ExpertPool::Place> ExpertPool::put_in_free(std::uint32_t block) {
  VITRO_CHECK(!resident(block), "an expert was admitted twice");
  if (free_ == 0) return std::nullopt;
  return put(block, static_cast<std::uint32_t>(std::ranges::find(block_in_, kNone) - block_in_.begin()), kNone, false);
}

std::optional<ExpertPool::Place> ExpertPool::admit(std::uint32_t block, const Held& hard, const Held& soft) {
  if (const std::optional<Place> place = put_in_free(block)) return place;
  if (const std::optional<Place> place = replace(block, [&](std::uint32_t b) { return hard(b) || soft(b); }, true)) return place;
  return replace(block, hard, true);
}

std::optional<ExpertPool::Place> ExpertPool::admit_if_worth(std::uint32_t block, const Held& held) {
  if (const std::optional<Place> place = put_in_free(block)) return place;
  return replace(block, held, false);
}

void ExpertPool::touch(std::uint32_t block) {
  if (kept_[block]) return;
  if (const auto passes = std::ranges::find(passing_, block); passes != passing_.end()) {
    passing_.erase(passes);  // wanted again: now the rule knows it
    return rule_->insert(block);
  }
  rule_->touch(block);
}

void ExpertPool::keep(std::uint32_t block) {
  VITRO_CHECK(resident(block), "only an expert that is there can stay for good");
  if (kept_[block]) return;
  if (const auto passes = std::ranges::find(passing_, block); passes != passing_.end()) {
    passing_.erase(passes);
  } else {
    rule_->erase(block);
  }
  kept_[block] = true;
  ++kept_count_;
}

void ExpertPool::drop(std::uint32_t block) {
  VITRO_CHECK(resident(block) && !kept_[block], "an expert left that could not");
  if (const auto passes = std::ranges::find(passing_, block); passes != passing_.end()) {
    passing_.erase(passes);
  } else {
    rule_->erase(block);
  }
  block_in_[std::exchange(slot_of_[block], kNone)] = kNone;
  ++free_;
}

void ExpertPool::next_token() {
  if (rule_->next_token().empty()) return;
  throw RunError("engine.weights.eviction: next_token() of the rule gave up experts that there is room for (expected none: experts leave "
                 "only for others)");
}

}  // namespace vitro
