// Tiers that follow the load: what a request's router chose is set beside what was expected, and placements are made anew where the two
// differ (NPUMoE 5.8 measures how well a calibration transfers).
#include <fmt/format.h>

#include <algorithm>

#include "engine/parts/ffn/experts/tiered_experts.hpp"

namespace vitro {

void TieredExperts::observe(std::int16_t layer, const std::vector<ExpertChoice>& choices) {
  if (!monitor_) return;
  std::vector<std::uint32_t> chose(options_.layers.shares.front().size(), 0);
  for (const ExpertChoice& choice : choices) {
    for (const std::uint16_t expert : choice.ids) ++chose.at(expert);
  }
  monitor_->observe(static_cast<std::size_t>(layer), chose, static_cast<std::uint32_t>(choices.size()));
}

// What the rule expects from now on, if that is something else.
std::optional<ExpertLoads> TieredExperts::drifted_loads() const {
  const auto hot = std::max<std::size_t>(options_.layers.shares.front().size() / 4, 1);
  const auto pairs = static_cast<double>(std::max<std::uint64_t>(in_graphs_pairs_, 1));
  const ExpertLoads observed = monitor_->observed();
  return options_.layers.drift->follow({monitor_->expected(), observed, static_cast<double>(overflowed_) / pairs,
                                        monitor_->overlap(hot).value_or(1), options_.layers.tiers.max_drop});
}

// Activations have been leased for so many rows; the coolest groups of a layer that needs more go to the cores.
void TieredExperts::keep_to_pool() {
  for (std::size_t layer = 0; layer < options_.placements.size(); ++layer) {
    LayerPlacement& placement = options_.placements[layer];
    const std::vector<double>& expected = options_.layers.loads[layer].expected;
    const auto load = [&](const StaticGroup& group) {
      double rows = 0;
      for (const std::uint16_t expert : group.experts) rows += expected[expert];
      return rows / static_cast<double>(group.experts.size());
    };
    std::vector<StaticGroup> groups = placement.groups;
    std::uint32_t rows = placement.rows;
    while (rows > most_slices_) {
      const auto coolest = std::ranges::min_element(groups, {}, load);
      rows -= coolest->rows();
      groups.erase(coolest);
    }
    if (groups.size() < placement.groups.size()) placement = lay_out(std::move(groups), expected.size());
  }
}

// Where graphs come with their weights, at launch, units have room for any.
void TieredExperts::place_by_rule() {
  if (!options_.layers.placer) return;
  const bool limited = chooses() && (residency_.stays() || keeps_);
  std::vector<UnitRoom> rooms = limited ? unit_rooms() : std::vector<UnitRoom>(options_.units.size());
  options_.placements = options_.layers.placer->place(options_.layers.loads, std::move(rooms), most_slices_);
  keep_to_pool();
  fit_scratch();
}

// For the largest slice: of a tier, or of a rule's own size.
void TieredExperts::fit_scratch() {
  std::uint32_t largest = 1;
  for (const LayerLoad& load : options_.layers.loads) largest = std::max(largest, *std::ranges::max_element(load.capacity));
  for (const LayerPlacement& layer : options_.placements) {
    for (const StaticGroup& group : layer.groups) largest = std::max(largest, group.capacity);
  }
  if (largest == scratch_rows_) return;
  scratch_rows_ = largest;
  for (Scratch& scratch : unit_scratch_) {
    scratch = {};
    scratch = make_scratch(largest);
  }
}

Task<void> TieredExperts::between_requests() {
  if (!options_.layers.drift || !monitor_ || options_.on_cores || !residency_.stays()) co_return;
  std::optional<ExpertLoads> drifted = drifted_loads();
  overflowed_ = in_graphs_pairs_ = 0;
  if (!drifted) {
    monitor_->forget();
    co_return;
  }
  machine_.trace.decision("experts", "the load has drifted from what was expected", "tiers follow");
  co_await finish();
  unload_graphs();
  options_.layers.counts = monitor_->chunks();
  monitor_->follow(*std::move(drifted));
  options_.layers.shares = monitor_->expected();
  options_.layers.loads = layer_loads(options_.layers.shares, options_.layers.counts, options_.layers.tiers);
  place_by_rule();
  if (prices_) {
    place_by_time(*prices_);
    keep_to_pool();
  }
  if (options_.layers.rule.residency) keep_resident();
  expect_drops();
  co_await load_graphs();
  ++stats_.retiers;
}

void TieredExperts::unload_graphs() {
  for (std::size_t layer = 0; layer < graphs_.size(); ++layer) {
    for (std::size_t g = 0; g < graphs_[layer].size(); ++g) {
      if (graphs_[layer][g]) options_.units[options_.placements[layer].groups[g].unit]->unload(*graphs_[layer][g]);
    }
  }
  for (const std::unique_ptr<GraphSlots>& slots : slots_) past_loads_ += slots ? slots->loads() : 0;
  graphs_.clear();
  slots_.clear();
  coming_.clear();
  stats_.graphs = 0;
}

}  // namespace vitro
