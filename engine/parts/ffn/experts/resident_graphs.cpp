// Which graphs of experts there are, and on which unit: chosen and loaded ahead of the first token, or each ahead of its layer.
#include <fmt/format.h>

#include <algorithm>

#include "engine/graph/lowering.hpp"
#include "engine/parts/ffn/experts/pool_views.hpp"
#include "engine/parts/ffn/experts/tiered_experts.hpp"

namespace vitro {
namespace {

std::size_t number_of(std::int16_t layer, std::size_t group) { return static_cast<std::size_t>(layer) << 16 | group; }

std::size_t quarter_of(std::size_t experts) { return std::max<std::size_t>(experts / 4, 1); }

}  // namespace

// Slots 1, 3, ... are the inputs of the group's experts, 2, 4, ... what they make of them.
GraphSpec TieredExperts::spec_of(std::int16_t layer, const StaticGroup& group, const std::vector<std::uint32_t>& rows) const {
  const Scratch& scratch = unit_scratch_[group.unit];
  GraphSpec spec;
  spec.name = fmt::format("layer {} {} experts of {} rows", in_model(layer), group.experts.size(), group.capacity);
  spec.built = rows.empty();  // when the model was installed (4.3, "does graph eviction happen")
  std::uint16_t slot = 0;
  for (std::size_t i = 0; i < group.experts.size(); ++i) {
    const std::uint16_t expert = group.experts[i];
    const std::uint32_t count = rows.empty() ? group.capacity : rows[i];
    if (count == 0) continue;
    const Batch batch = rows_for_nobody(count);
    View x = without_memory(count, options_.width, options_.activations);
    x.slot = ++slot;
    append_gated(kInGraph, spec.calls, layer, expert, batch, x, scratch, 0, {});
    x.slot = ++slot;
    spec.calls.push_back(product(kInGraph, Role::ffn_down, layer, expert, batch, wide(scratch.hidden, 0, count), x, {}));
  }
  return spec;
}

Task<void> TieredExperts::load() {
  const bool stays = residency_.stays();
  keeps_ = !stays && chooses() && residency_.keepable() > 0;
  place_by_rule();
  if (options_.on_cores) {
    expect_drops();
    co_return;
  }
  if (options_.layers.cold_by_time && stays) {
    prices_ = co_await measure_prices();
    place_by_time(*prices_);
  }
  if (chooses() && (stays || keeps_)) keep_resident();
  expect_drops();
  if (keeps_) co_await keep_experts();
  if (!stays) check_room();
  if (stays || keeps_) co_await load_graphs();
}

// Whether units hold some graphs for good, and so no more than they have room for.
bool TieredExperts::chooses() const { return !options_.layers.loads.empty() && options_.layers.rule.residency && !options_.on_cores; }

// Of the pairs of a chunk, those of experts in graphs that are expected to find no room. Of a slice that is larger than the tier no more
// than of the tier.
void TieredExperts::expect_drops() {
  if (options_.layers.loads.empty()) return;
  double beyond = 0, expected = 0;
  for (std::size_t layer = 0; layer < options_.layers.loads.size(); ++layer) {
    const LayerLoad& load = options_.layers.loads[layer];
    for (std::size_t e = 0; e < load.expected.size(); ++e) {
      const std::uint32_t rows = options_.placements[layer].capacity[e];
      expected += load.expected[e];
      if (rows == 0 || e >= load.overflow.size()) continue;
      beyond += rows >= load.capacity[e] ? load.overflow[e]
                                         : overflow_curve(options_.layers.shares[layer][e], options_.layers.counts, layer, e,
                                                          options_.layers.tiers).beyond(rows);
    }
  }
  stats_.expected_overflow = expected > 0 ? beyond / expected : 0;
}

std::uint32_t TieredExperts::attention_graphs() const {
  return options_.layers.attention == nullptr ? 0 : static_cast<std::uint32_t>(options_.layers.attention->graphs());
}

// Kept for graphs that come: two layers' worth, those at work and those on their way, but no more than half of what there is.
UnitRoom TieredExperts::with_spare(UnitRoom room) const {
  std::uint32_t most = 0;
  std::size_t experts = 1;
  for (const LayerPlacement& layer : options_.placements) {
    most = std::max(most, static_cast<std::uint32_t>(layer.groups.size()));
    for (const StaticGroup& group : layer.groups) experts = std::max(experts, group.experts.size());
  }
  const Bytes largest = experts * options_.layers.expert_bytes;
  room.spare = static_cast<std::uint32_t>(std::min<Bytes>({room.graphs / 2, Bytes{2} * most, room.bytes / 2 / largest}));
  room.bytes -= room.spare * largest;
  return room;
}

std::vector<UnitRoom> TieredExperts::unit_rooms() const {
  std::vector<UnitRoom> rooms;
  for (std::size_t u = 0; u < options_.units.size(); ++u) {
    const UnitCaps& caps = options_.units[u]->caps();
    const std::uint32_t taken = u == 0 ? attention_graphs() : 0;
    UnitRoom& room = rooms.emplace_back();
    if (caps.graph_count > 0) room.graphs = caps.graph_count - std::min(caps.graph_count, taken);
    if (caps.session_limit > 0) room.bytes = caps.session_limit;
    if (options_.layers.resident > 0) room.bytes = std::min(room.bytes, options_.layers.resident);
    if (keeps_) room.bytes = std::min(room.bytes, residency_.keepable() / options_.units.size() * options_.layers.expert_bytes);
  }
  return rooms;
}

void TieredExperts::keep_resident() {
  if (options_.layers.placer && options_.layers.placer->names_units()) {
    resident_ = {};  // all of them, each where the rule says
    stats_.left_graphs = 0;
    return;
  }
  std::vector<UnitRoom> rooms = unit_rooms(), spared;
  for (const UnitRoom& room : rooms) spared.push_back(with_spare(room));
  resident_ = choose_resident(options_.placements, options_.layers.loads, options_.layers.expert_bytes, std::move(rooms));
  if (resident_.left > 0 && options_.layers.comes && !keeps_) {
    resident_ = choose_resident(options_.placements, options_.layers.loads, options_.layers.expert_bytes, spared);
    spare_.clear();
    for (const UnitRoom& room : spared) spare_.push_back(room.spare);
  }
  options_.placements = std::exchange(resident_.layers, {});
  stats_.left_graphs = resident_.left;
}

// Where the others come from flash as they are needed, experts in graphs stay, and a graph is loaded with their weights.
Task<void> TieredExperts::keep_experts() {
  for (std::size_t layer = 0; layer < options_.placements.size(); ++layer) {
    for (const StaticGroup& group : options_.placements[layer].groups) {
      for (const std::uint16_t expert : group.experts) co_await residency_.keep(in_model(static_cast<std::int16_t>(layer)), expert);
    }
  }
}

Task<void> TieredExperts::load_graphs() {
  graphs_.resize(options_.placements.size());
  slots_.resize(options_.units.size());
  for (std::size_t layer = 0; layer < options_.placements.size(); ++layer) {
    const LayerPlacement& placement = options_.placements[layer];
    for (std::size_t g = 0; g < placement.groups.size(); ++g) {
      const StaticGroup& group = placement.groups[g];
      graphs_[layer].emplace_back();
      if (options_.exact) continue;
      if (group.comes) {
        coming_.emplace_back(static_cast<std::int16_t>(layer), g);
        continue;
      }
      ComputeUnit* unit = options_.units[group.unit];
      GraphSpec spec = spec_of(static_cast<std::int16_t>(layer), group);
      machine_.trace.decision("experts", fmt::format("layer {}: {}, {} rows each", in_model(static_cast<std::int16_t>(layer)),
                                                     fmt::join(group.experts, " "), group.capacity),
                              unit->caps().name);
      Result<Graph> graph = co_await unit->load(std::move(spec));
      if (!graph.ok()) throw RunError(graph.status().message);
      graphs_[layer].back() = graph.value();
      ++stats_.graphs;
    }
  }
  if (resident_.left > 0) {
    machine_.trace.decision("experts", fmt::format("{} graphs beyond what units hold: their experts", resident_.left), "cores");
  }
  for (const auto& [layer, g] : coming_) {
    const std::uint32_t unit = options_.placements[static_cast<std::size_t>(layer)].groups[g].unit;
    if (slots_[unit]) continue;
    slots_[unit] = std::make_unique<GraphSlots>(machine_, *options_.units[unit], spare_.at(unit), [this](std::size_t number) {
      const std::size_t layer = number >> 16;
      return spec_of(static_cast<std::int16_t>(layer), options_.placements[layer].groups[number & 0xffff]);
    });
  }
}

Task<Graph> TieredExperts::graph_of(std::int16_t layer, std::size_t index) {
  const StaticGroup& group = options_.placements[static_cast<std::size_t>(layer)].groups[index];
  if (!group.comes) co_return graphs_[static_cast<std::size_t>(layer)][index].value();
  co_return co_await slots_[group.unit]->take(number_of(layer, index));
}

// Graphs come in the order of use, from this layer on and around, as long as there is a slot for the next one.
void TieredExperts::prepare(std::int16_t model_layer, std::uint32_t rows, std::uint32_t) {
  const auto layer = static_cast<std::int16_t>(model_layer - options_.first_layer);
  if (coming_.empty() || rows < options_.graph_rows) return;
  const auto first = std::lower_bound(coming_.begin(), coming_.end(), std::pair(layer, std::size_t{0}));
  std::vector<bool> full(slots_.size());
  for (std::size_t i = 0; i < coming_.size(); ++i) {
    const auto& [l, g] = coming_[(static_cast<std::size_t>(first - coming_.begin()) + i) % coming_.size()];
    const std::uint32_t unit = options_.placements[static_cast<std::size_t>(l)].groups[g].unit;
    if (!full[unit]) full[unit] = !slots_[unit]->begin(number_of(l, g));
  }
}

// What the step began may still be on its way to the next one.
Task<void> TieredExperts::finish() {
  for (const std::unique_ptr<GraphSlots>& slots : slots_) {
    if (slots) co_await slots->settle();
  }
}

const MoeStats* TieredExperts::experts() const {
  if (options_.layers.attention != nullptr) {
    const KeyCounts& keys = options_.layers.attention->key_counts();
    stats_.keys = keys.pairs;
    stats_.masked_keys = keys.masked;
  }
  if (monitor_) {
    const std::size_t experts = options_.layers.shares.front().size();
    stats_.hot_overlap = monitor_->overlap(quarter_of(experts));
    stats_.half_overlap = monitor_->overlap(std::max<std::size_t>(experts / 2, 1));
  }
  stats_.graph_loads = past_loads_;
  for (const std::unique_ptr<GraphSlots>& slots : slots_) {
    if (slots) stats_.graph_loads += slots->loads();
  }
  return &stats_;
}

std::vector<std::string> TieredExperts::notes() const {
  std::vector<std::string> units;
  for (const ComputeUnit* unit : options_.units) units.push_back(fmt::format("{} of {}", unit->caps().graph_count, unit->caps().name));
  if (resident_.left > 0) {
    return {fmt::format("experts: {} of {} graphs are beyond what units hold ({}), and cores compute their experts, {:.0f} % of all pairs",
                        resident_.left, resident_.left + resident_.held + resident_.coming, fmt::join(units, ", "),
                        100 * resident_.left_share)};
  }
  if (resident_.coming > 0) {
    return {fmt::format("experts: {} of {} graphs are beyond what units hold ({}), and are loaded ahead of their layers", resident_.coming,
                        resident_.held + resident_.coming, fmt::join(units, ", "))};
  }
  return {};
}

// A layer has its share of the graphs that units hold, where those beyond are the cores'.
void TieredExperts::place_by_time(const ExpertPrices& prices) {
  std::uint64_t graphs = 0;
  for (const UnitRoom& room : unit_rooms()) graphs += room.graphs;
  const std::uint64_t each = options_.layers.comes ? ~std::uint64_t{0} : graphs / options_.placements.size();
  for (std::size_t layer = 0; layer < options_.layers.loads.size(); ++layer) {
    options_.placements[layer] = vitro::place_by_time(options_.layers.loads[layer], options_.layers.rule, prices, each);
  }
  machine_.trace.decision("experts",
                          fmt::format("a launch takes {:.2f} ms, {:.2f} ms an expert and {:.3f} ms a row; on cores {:.2f} ms and {:.3f} ms",
                                      1e3 * prices.launch, 1e3 * prices.per_expert, 1e3 * prices.per_row, 1e3 * prices.core_expert,
                                      1e3 * prices.core_row),
                          "prices");
}

}  // namespace vitro
