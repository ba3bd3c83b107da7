#include "engine/parts/weights/expert_residency.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/parts/weights/shared_order.hpp"

namespace vitro {

std::optional<ExpertResidency::Place> ExpertResidency::lacking(const WorkItem& item) const {
  for (const WeightUse& use : item.uses) {
    const std::optional<Place> place = place_of(use);
    if (place && (!pools_[place->pool].cache->resident(place->block) || is_broken(*place))) return place;
  }
  return std::nullopt;
}

// What it holds did not come, and nothing of this phase waits for it: then it is not there.
bool ExpertResidency::is_broken(Place place) const {
  const Block& block = pools_[place.pool].blocks[place.block];
  return block.load && block.load->failed() && block.used != phase_;
}

void ExpertResidency::forget(Place place) {
  Pool& pool = pools_[place.pool];
  Block& block = pool.blocks[place.block];
  log("forget", block);
  if (block.load) reader_.stop(block.load);
  block.load.reset();
  block.foreseen = false;
  pool.cache->drop(place.block);
}

void ExpertResidency::plan(const UnitQueues& phase) {
  ++phase_;
  abandoned_ = false;
  steps_.clear();
  number_.assign(phase.size(), {});
  const std::uint64_t hits = stats_.hits, misses = stats_.misses;
  const auto add = [&](std::size_t unit, std::size_t item) {
    number_[unit].push_back(static_cast<std::uint32_t>(steps_.size()));
    steps_.emplace_back();
    plan_item(phase[unit][item], number_[unit].back());
  };
  in_shared_order(phase, [this](const WorkItem& item) { return lacking(item); }, add);
  if (stats_.hits > hits) machine_.clock.charge(PolicyWork::cache_lookup, static_cast<std::uint32_t>(stats_.hits - hits));
  if (stats_.misses > misses) machine_.clock.charge(PolicyWork::cache_update, static_cast<std::uint32_t>(stats_.misses - misses));
  reader_.pump();
}

void ExpertResidency::plan_item(const WorkItem& item, std::uint32_t number) {
  const std::vector<Place> all = places(item);
  for (const Place& place : all) use(place, all, number);
}

bool ExpertResidency::is_wanted(const Pool& pool, std::uint32_t block) const {
  return static_cast<std::int16_t>(pool.first_layer + block / pool.experts) == layer_ && chosen_[block % pool.experts];
}

// Counted once for a phase, however many units share the matrix; again where it has left and comes back.
void ExpertResidency::use(Place place, const std::vector<Place>& item, std::uint32_t number) {
  Pool& pool = pools_[place.pool];
  Block& block = pool.blocks[place.block];
  if (is_broken(place)) forget(place);
  if (pool.cache->resident(place.block)) {
    if (block.used != phase_) {
      ++stats_.hits;
      pool.cache->touch(place.block);
      if (std::exchange(block.foreseen, false)) ++expert_stats_.foreseen_used;
    }
    if (block.load && !block.load->landed) reader_.want(block.load);
  } else {
    ++stats_.misses;
    const auto hard = [&](std::uint32_t b) { return std::ranges::find(item, Place{place.pool, b}) != item.end(); };
    const auto soft = [&](std::uint32_t b) { return is_wanted(pool, b) && pool.blocks[b].used != phase_; };
    const std::optional<ExpertPool::Place> where = pool.cache->admit(place.block, hard, soft);
    VITRO_CHECK(where.has_value(), "a cache of experts without room for one item");
    begin_load(place, *where, true);
  }
  if (block.used != phase_) block.users.clear();
  block.used = phase_;
  block.users.push_back(number);
  steps_[number].slots.emplace_back(place, pool.cache->slot_of(place.block));
  if (block.load) {
    if (block.load->landed && block.load->status.ok()) {
      block.load.reset();
    } else {
      steps_[number].loads.push_back(block.load);
    }
  }
}

void ExpertResidency::begin_load(Place place, ExpertPool::Place where, bool wanted) {
  Pool& pool = pools_[place.pool];
  Block& block = pool.blocks[place.block];
  auto load = std::make_shared<ExpertLoad>();
  load->weight = block.weight;
  load->expert = block.expert;
  load->into = pool.memory[where.slot];
  if (where.evicted != ExpertPool::kNone) make_room(pool.blocks[where.evicted], *load);
  std::shared_ptr<ExpertLoad>& last = pool.filled_by[where.slot];
  load->before = not_landed(std::move(last));
  last = load;
  log(wanted ? "load" : "foresee", block);
  block.load = load;
  block.foreseen = !wanted;
  ++expert_stats_.loads;
  if (!wanted) ++expert_stats_.foreseen;
  reader_.add(std::move(load), wanted);
}

// The newcomer waits for who still computes with what was there.
void ExpertResidency::make_room(Block& gone, ExpertLoad& newcomer) {
  log("evict", gone);
  if (gone.load && gone.used != phase_) reader_.stop(gone.load);  // nobody waits for it
  if (gone.used == phase_) {
    newcomer.may_begin = [this, phase = phase_, users = gone.users] {
      return phase != phase_ || std::ranges::all_of(users, [this](std::uint32_t step) { return steps_[step].finished; });
    };
  }
  gone.load.reset();
  gone.foreseen = false;
  gone.used = 0;
}

void ExpertResidency::log(std::string_view kind, const Block& block) const {
  if (machine_.trace.enabled()) machine_.trace.decision(kind, fmt::format("{} expert {}", block.weight->name, block.expert), "cold");
}

bool ExpertResidency::ready(std::size_t unit, std::size_t item) const {
  return std::ranges::all_of(steps_[number_.at(unit).at(item)].loads, [](const auto& load) { return load->landed && load->status.ok(); });
}

Task<void> ExpertResidency::fetch(std::size_t unit, std::size_t item, UnitId) {
  const std::vector<std::shared_ptr<ExpertLoad>> loads = steps_[number_.at(unit).at(item)].loads;
  if (waiting_++ == 0) waiting_since_ = machine_.clock.now();
  for (const std::shared_ptr<ExpertLoad>& load : loads) {
    while (!load->landed && !abandoned_) co_await reader_.landed().changed();
  }
  if (--waiting_ == 0) expert_stats_.stalled += machine_.clock.now() - waiting_since_;
  for (const std::shared_ptr<ExpertLoad>& load : loads) {
    if (load->status.ok() || abandoned_) continue;
    throw RunError(fmt::format("reading {} of expert {}: {}", load->weight->name, load->expert, load->status.message));
  }
}

void ExpertResidency::done(std::size_t unit, std::size_t item) {
  steps_[number_.at(unit).at(item)].finished = true;
  reader_.pump();
}

void ExpertResidency::abandon() {
  abandoned_ = true;
  for (Step& step : steps_) step.finished = true;
  reader_.give_up();
}

}  // namespace vitro
