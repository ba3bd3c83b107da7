// Where matrices of experts are: slots, what stays for good, and how calls find them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/parts/weights/expert_residency.hpp"

namespace vitro {
namespace {

constexpr std::array kExpertMatrices{Role::ffn_gate, Role::ffn_up, Role::ffn_down};
constexpr std::uint32_t kKeepDepth = 4;

Bytes page_skew(const Weight& weight, std::uint32_t expert) { return (weight.extent.offset + expert * weight.matrix_bytes()) % kPageSize; }

bool holds_none(std::uint32_t) { return false; }

// Whole pages around a matrix, wherever it begins.
Bytes pages_of(const Weight& weight) {
  Bytes most = 0;
  for (std::uint32_t e = 0; e < weight.experts; ++e)
    most = std::max(most, round_up(page_skew(weight, e) + weight.matrix_bytes(), kPageSize));
  return most;
}

}  // namespace

ExpertResidency::ExpertResidency(Machine& machine, const WeightStore& weights, ExpertCacheOptions options)
    : DenseResidency(machine, weights),
      machine_(machine),
      weights_(weights),
      options_(std::move(options)),
      reader_(machine, options_.reader, options_.reads_in_flight) {
  for (const Role role : kExpertMatrices) {
    Pool pool;
    pool.role = role;
    for (const Weight& weight : weights.all()) {
      if (weight.role != role || weight.experts < 2) continue;
      if (pool.blocks.empty()) pool.first_layer = static_cast<std::uint32_t>(weight.layer), pool.experts = weight.experts;
      VITRO_CHECK(weight.experts == pool.experts && pool.blocks.size() == (weight.layer - pool.first_layer) * std::size_t{pool.experts},
                  "layers with experts follow each other");
      pool.slot_bytes = std::max(pool.slot_bytes, pages_of(weight));
      for (std::uint32_t e = 0; e < weight.experts; ++e) pool.blocks.emplace_back().weight = &weight, pool.blocks.back().expert = e;
    }
    if (!pool.blocks.empty()) pools_.push_back(std::move(pool));
  }
  if (pools_.empty()) throw ConfigError("engine.weights.kind: experts needs a model with experts, and this one has none (expected dram)");
  Bytes names = 0;
  for (Pool& pool : pools_) {
    pool.names = names;
    names += pool.blocks.size() * pool.slot_bytes;
    expert_stats_.expert_bytes += pool.slot_bytes;
    expert_stats_.blocks += pool.blocks.size();
  }
  names_ = machine.memory.reserve(names, Placement::dram, Region::cold).value_or_throw();
  chosen_.resize(pools_.front().experts);
  const LookAheadKind* ahead = look_ahead_rules().find(options_.ahead);
  VITRO_CHECK(ahead != nullptr, "a rule for reading ahead that nobody checked");
  ahead_ = ahead->make({pools_.front().experts, options_.experts_used});
}

bool ExpertResidency::is_kept(const Weight& weight) const {
  return DenseResidency::is_kept(weight) && !(is_ffn(weight.role) && weight.experts > 1);
}

Task<void> ExpertResidency::load() {
  Bytes other = 0, all = 0;
  for (const Weight& weight : weights_.all()) other += is_kept(weight) ? round_up(weight.extent.length, kPageSize) : 0;
  for (const Pool& pool : pools_) all += pool.blocks.size() * pool.slot_bytes;
  const Budget& budget = machine_.memory.budget(Placement::dram);
  const Bytes taken = budget.used + options_.keep_free + other, expert = expert_stats_.expert_bytes;
  Bytes room = budget.limit - std::min(budget.limit, taken);
  if (options_.budget > 0) room = std::min(room, options_.budget);
  if (options_.ffn_in_dram && *options_.ffn_in_dram < 1) {
    room = std::min(room, static_cast<Bytes>(*options_.ffn_in_dram * static_cast<double>(weights_.ffn_bytes())));
  }
  const auto slots = static_cast<std::uint32_t>(std::min<Bytes>(room / expert, pools_.front().blocks.size()));
  if (slots == 0) {
    throw ConfigError(fmt::format(
        "memory.budget: {} are left for a cache of experts, which is below the smallest working set: one expert has {}, and {} are in use "
        "or kept free beside them (raise memory.budget, memory.ffn_in_dram or engine.weights.experts.budget)",
        format_bytes(room), format_bytes(expert), format_bytes(taken)));
  }
  const auto layers = static_cast<std::uint32_t>(pools_.front().blocks.size() / pools_.front().experts);
  for (Pool& pool : pools_) {
    for (std::uint32_t slot = 0; slot < slots; ++slot)
      pool.memory.push_back(machine_.memory.lease(pool.slot_bytes, Placement::dram, Region::cold).value_or_throw());
    pool.filled_by.resize(slots);
    const auto blocks = static_cast<std::uint32_t>(pool.blocks.size());
    pool.cache.emplace(blocks, slots, make_eviction(options_.eviction, {blocks, slots, 0, layers, options_.admission}));
    expect(pool);
    expert_stats_.slots += slots;
  }
  co_await DenseResidency::load();
  if (slots < pools_.front().blocks.size()) co_return;
  for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
    for (std::uint32_t block = 0; block < slots; ++block) co_await read_now({pool, block});
  }
}

// What the calibration knows of a layer's experts.
void ExpertResidency::expect(Pool& pool) const {
  for (std::size_t layer = 0; layer < options_.expected.size(); ++layer) {
    const std::vector<double>& shares = options_.expected[layer];
    const std::size_t first = layer * pool.experts;
    if (shares.size() != pool.experts || options_.expected.size() * pool.experts != pool.blocks.size()) {
      throw ConfigError(fmt::format(
          "engine.ffn.experts.loads: has {} layers of {} experts, but {} of {} are cached (expected the loads of this model)",
          options_.expected.size(), shares.size(), pool.blocks.size() / pool.experts, pool.experts));
    }
    for (std::uint32_t expert = 0; expert < pool.experts; ++expert) {
      pool.cache->expect(static_cast<std::uint32_t>(first + expert), shares[expert] * options_.experts_used);
    }
  }
}

// Before the first token, or between steps: nobody computes.
Task<void> ExpertResidency::read_now(Place place) {
  Pool& pool = pools_[place.pool];
  Block& block = pool.blocks[place.block];
  const ExpertPool::Place where = pool.cache->admit(place.block, holds_none, holds_none).value();
  ExpertLoad whole;
  whole.weight = block.weight;
  whole.expert = block.expert;
  Weight part = *block.weight;
  part.extent.offset = whole.begin();
  part.extent.length = whole.length();
  if (where.evicted != ExpertPool::kNone) {
    Block& gone = pool.blocks[where.evicted];
    log("evict", gone);
    if (gone.load) reader_.stop(gone.load);
    gone.load.reset();
    gone.foreseen = false;
    gone.used = 0;
  }
  while (not_landed(pool.filled_by[where.slot])) co_await reader_.landed().changed();
  log("load", block);
  try {
    co_await read_weight(&machine_, &part, pool.memory[where.slot], 0, options_.reader, kKeepDepth);
  } catch (...) {
    forget(place);
    throw;
  }
}

std::uint32_t ExpertResidency::keepable() const {
  const ExpertPool& cache = *pools_.front().cache;
  const std::uint32_t passing = std::min(cache.slots(), pools_.front().experts);  // of one layer at once
  return cache.slots() - passing - std::min(cache.kept(), cache.slots() - passing);
}

bool ExpertResidency::here(std::int16_t layer, std::uint16_t expert) const {
  const Pool& pool = pools_.front();
  const std::uint32_t block = (static_cast<std::uint32_t>(layer) - pool.first_layer) * pool.experts + expert;
  // How far a read has come decides nothing, but that it failed.
  return pool.cache->resident(block) && !pool.blocks[block].foreseen && !is_broken({0, block});
}

Task<void> ExpertResidency::keep(std::int16_t layer, std::uint16_t expert) {
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    const std::uint32_t block = (static_cast<std::uint32_t>(layer) - pool.first_layer) * pool.experts + expert;
    if (const std::shared_ptr<ExpertLoad> load = pool.blocks[block].load) {
      while (!load->landed) co_await reader_.landed().changed();
      if (load->failed()) {
        forget({p, block});
      } else {
        pool.blocks[block].load.reset();
      }
    }
    if (!pool.cache->resident(block)) co_await read_now({p, block});
    if (!pool.cache->keeps(block)) ++expert_stats_.kept;
    pool.cache->keep(block);
  }
}

std::optional<ExpertResidency::Place> ExpertResidency::place_of(const Weight& weight, std::uint32_t expert) const {
  if (weight.experts < 2) return std::nullopt;
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    const Pool& pool = pools_[p];
    if (pool.role == weight.role) return Place{p, (static_cast<std::uint32_t>(weight.layer) - pool.first_layer) * pool.experts + expert};
  }
  return std::nullopt;
}

std::optional<ExpertResidency::Place> ExpertResidency::place_of(const WeightUse& use) const {
  return use.length == 0 ? std::nullopt : place_of(*use.weight, static_cast<std::uint32_t>(use.offset / use.weight->matrix_bytes()));
}

View ExpertResidency::in_slot(const Pool& pool, std::uint32_t block, std::uint32_t slot) const {
  const Block& of = pool.blocks[block];
  View view;
  view.memory = pool.memory[slot];
  view.offset = page_skew(*of.weight, of.expert);
  view.shape = {of.weight->rows, of.weight->columns, 0};
  view.format = of.weight->format;
  view.layout = of.weight->layout;
  return view;
}

View ExpertResidency::view(const Weight& weight, std::uint32_t expert) const {
  const std::optional<Place> place = place_of(weight, expert);
  if (!place) return DenseResidency::view(weight, expert);
  const Pool& pool = pools_[place->pool];
  if (pool.cache && pool.cache->keeps(place->block)) return in_slot(pool, place->block, pool.cache->slot_of(place->block));
  View view;
  view.memory = names_;
  view.offset = pool.names + place->block * pool.slot_bytes;
  view.shape = {weight.rows, weight.columns, 0};
  view.format = weight.format;
  view.layout = weight.layout;
  return view;
}

void ExpertResidency::bind(std::size_t unit, std::size_t item, Chain& calls) const {
  const Step& step = steps_[number_.at(unit).at(item)];
  for (KernelCall& call : calls) {
    for (View& view : call.in) {
      if (!view.memory || view.memory.id() != names_.id()) continue;
      const auto after = std::ranges::find_if(pools_, [&](const Pool& pool) { return pool.names > view.offset; });
      const Pool& pool = *std::prev(after);
      const Place named{static_cast<std::size_t>(&pool - pools_.data()),
                        static_cast<std::uint32_t>((view.offset - pool.names) / pool.slot_bytes)};
      const auto known = std::ranges::find(step.slots, named, &std::pair<Place, std::uint32_t>::first);
      VITRO_CHECK(known != step.slots.end(), "a call reads an expert that its item did not name");
      const View there = in_slot(pool, named.block, known->second);
      view.memory = there.memory;
      view.offset = there.offset;
    }
  }
}

std::vector<ExpertResidency::Place> ExpertResidency::places(const WorkItem& item) const {
  std::vector<Place> places;
  for (const WeightUse& use : item.uses) {
    const std::optional<Place> place = place_of(use);
    if (place && std::ranges::find(places, *place) == places.end()) places.push_back(*place);
  }
  return places;
}

void ExpertResidency::check_room(const UnitQueues& phase) const {
  for (const std::vector<WorkItem>& queue : phase) {
    for (const WorkItem& item : queue) {
      std::vector<std::uint32_t> wanted(pools_.size());
      for (const Place& place : places(item)) wanted[place.pool] += pools_[place.pool].cache->keeps(place.block) ? 0 : 1;
      for (std::size_t p = 0; p < pools_.size(); ++p) {
        const ExpertPool& cache = *pools_[p].cache;
        if (wanted[p] <= cache.slots() - cache.kept()) continue;
        throw ConfigError(fmt::format(
            "memory.budget: the cache of experts has room for {} of {} each, and {} are computed at once, which is below the smallest "
            "working set (raise memory.budget, memory.ffn_in_dram or engine.weights.experts.budget, or make engine.ffn.experts.group "
            "smaller)",
            cache.slots() - cache.kept(), format_bytes(expert_stats_.expert_bytes), wanted[p]));
      }
    }
  }
}

}  // namespace vitro
