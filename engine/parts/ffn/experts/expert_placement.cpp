#include "engine/parts/ffn/experts/expert_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

std::uint32_t largest_of(const LayerLoad& load) { return *std::max_element(load.capacity.begin(), load.capacity.end()); }

class ByLoad final : public ExpertPlacement {
 public:
  explicit ByLoad(const GroupRule& rule) : rule_(rule) {}
  std::vector<ExpertGraph> place(const LayerToPlace& at) override {
    std::vector<ExpertGraph> graphs;
    for (StaticGroup& group : group_experts(at.load, rule_)) graphs.push_back({std::move(group.experts), group.capacity, std::nullopt});
    return graphs;
  }
  std::uint32_t most_rows(const LayerLoad& load) const override { return place_experts(load, rule_).rows; }

 private:
  GroupRule rule_;
};

class Hottest final : public ExpertPlacement {
 public:
  explicit Hottest(const PlaceOptions& options) : options_(options) {}
  std::vector<ExpertGraph> place(const LayerToPlace& at) override {
    const std::vector<std::uint16_t> experts = by_load(at.load);
    const std::size_t units = at.rooms.size(), even = (experts.size() + units - 1) / units;
    const std::size_t group = std::clamp<std::size_t>(even, 1, options_.by_load.group);
    std::vector<std::size_t> left = share_of_layer(at, group);  // graphs by unit
    std::vector<ExpertGraph> graphs;
    std::uint32_t rows = 0;
    for (std::size_t first = 0; first < experts.size(); first += group) {
      const auto unit = static_cast<std::size_t>(std::ranges::max_element(left) - left.begin());
      ExpertGraph graph;
      for (std::size_t i = first; i < std::min(first + group, experts.size()); ++i) {
        graph.experts.push_back(experts[i]);
        graph.rows = std::max(graph.rows, at.load.capacity[experts[i]]);
      }
      rows += graph.rows * static_cast<std::uint32_t>(graph.experts.size());
      if (left[unit] == 0 || rows > at.rows) break;
      --left[unit];
      graph.unit = static_cast<std::uint32_t>(unit);
      graphs.push_back(std::move(graph));
    }
    return graphs;
  }

 private:
  // Those of which something is expected, the hottest first.
  static std::vector<std::uint16_t> by_load(const LayerLoad& load) {
    std::vector<std::uint16_t> experts(load.expected.size());
    std::iota(experts.begin(), experts.end(), std::uint16_t{0});
    std::erase_if(experts, [&](std::uint16_t e) { return !(load.expected[e] > 0); });
    std::stable_sort(experts.begin(), experts.end(), [&](auto a, auto b) { return load.expected[a] > load.expected[b]; });
    return experts;
  }
  // Graphs of so many experts: what is left of each unit, over the layers that are left.
  std::vector<std::size_t> share_of_layer(const LayerToPlace& at, std::size_t group) const {
    std::vector<std::size_t> graphs;
    const Bytes bytes = std::max<Bytes>(group * options_.expert_bytes, 1);
    for (const UnitRoom& room : at.rooms) {
      graphs.push_back(std::min<Bytes>(room.graphs, room.bytes / bytes) / (options_.layers - at.layer));
    }
    return graphs;
  }

  PlaceOptions options_;
};

class OnCores final : public ExpertPlacement {
 public:
  std::vector<ExpertGraph> place(const LayerToPlace&) override { return {}; }
  std::uint32_t most_rows(const LayerLoad&) const override { return 0; }
};

using Made = std::unique_ptr<ExpertPlacement>;

Registry<PlaceRule> own_place_rules() {
  Registry<PlaceRule> rules;
  rules.add({"load", "experts of one tier and of like load share a graph, cold ones are the cores'",
             [](const PlaceOptions& o) -> Made { return std::make_unique<ByLoad>(o.by_load); }});
  rules.add({"hottest", "of each layer the hottest experts, as many as its equal share of the units' room holds",
             [](const PlaceOptions& o) -> Made { return std::make_unique<Hottest>(o); }});
  rules.add({"cores", "all on cores", [](const PlaceOptions&) -> Made { return std::make_unique<OnCores>(); }});
  return rules;
}

}  // namespace

Registry<PlaceRule>& place_rules() {
  static Registry<PlaceRule> rules = own_place_rules();
  return rules;
}

std::uint32_t ExpertPlacement::most_rows(const LayerLoad& load) const {
  return largest_of(load) * static_cast<std::uint32_t>(load.expected.size());
}

std::uint32_t ExpertPlacer::most_rows(const std::vector<LayerLoad>& loads) const {
  std::uint32_t most = 0;
  for (const LayerLoad& load : loads) most = std::max(most, rule_->most_rows(load));
  return most;
}

// What a rule said of one layer, and the way to say what is wrong with it.
struct ExpertPlacer::Answer {
  const std::string& name;
  const LayerToPlace& at;
  std::vector<ExpertGraph> graphs;

  template <class... What>
  [[noreturn]] void refuse(std::string_view expected, fmt::format_string<What...> what, What&&... values) const {
    throw RunError(fmt::format("the place policy {}: layer {} has {} (expected {})", name, at.layer,
                               fmt::format(what, std::forward<What>(values)...), expected));
  }
};

LayerPlacement ExpertPlacer::laid_out(const Answer& answer, std::vector<UnitRoom>& rooms) const {
  const LayerToPlace& at = answer.at;
  const std::uint32_t own = (options_.chunk + options_.multiple - 1) / options_.multiple * options_.multiple;
  const std::uint32_t most = std::max(own, largest_of(at.load));
  std::vector<bool> placed(options_.experts);
  std::vector<StaticGroup> groups;
  std::uint64_t rows = 0;
  for (const ExpertGraph& graph : answer.graphs) {
    if (graph.experts.empty()) answer.refuse("graphs of one expert or more", "a graph without experts");
    if (graph.experts.size() > options_.by_load.group)
      answer.refuse(fmt::format("at most {}", options_.by_load.group), "a graph of {} experts", graph.experts.size());
    for (const std::uint16_t expert : graph.experts) {
      if (expert >= options_.experts) answer.refuse(fmt::format("0 to {}", options_.experts - 1), "expert {} in a graph", expert);
      if (placed[expert]) answer.refuse("each expert once, or on cores", "expert {} twice", expert);
      placed[expert] = true;
    }
    if (graph.rows < 1 || graph.rows > most || graph.rows % options_.multiple != 0) {
      answer.refuse(fmt::format("1 to {}, a multiple of {}", most, options_.multiple), "slices of {} rows for experts {}", graph.rows,
                    fmt::join(graph.experts, ", "));
    }
    rows += std::uint64_t{graph.rows} * graph.experts.size();
    groups.push_back({graph.experts, graph.rows, graph.unit.value_or(0), 0, false});
    if (!graph.unit) continue;
    if (*graph.unit >= rooms.size()) answer.refuse(fmt::format("0 to {}", rooms.size() - 1), "a graph on unit {}", *graph.unit);
    UnitRoom& room = rooms[*graph.unit];
    const Bytes bytes = graph.experts.size() * options_.expert_bytes;
    if (room.graphs == 0) answer.refuse("another unit, or fewer graphs", "a graph on unit {}, which holds no more", *graph.unit);
    if (room.bytes < bytes)
      answer.refuse(fmt::format("at most the {} that the unit still holds", room.bytes), "a graph of {} B on unit {}", bytes, *graph.unit);
    --room.graphs;
    room.bytes -= bytes;
  }
  if (names_units_ && rows > at.rows)
    answer.refuse(fmt::format("at most {}, for which there is memory", at.rows), "{} rows of slices", rows);
  if (!names_units_) share_out(groups, options_.by_load.units);
  return lay_out(std::move(groups), options_.experts);
}

std::vector<ExpertGraph> ExpertPlacer::ask(const LayerToPlace& at) const {
  try {
    return rule_->place(at);
  } catch (const ConfigError&) {
    throw;
  } catch (const RunError&) {
    throw;
  } catch (const std::exception& error) {
    throw RunError(fmt::format("the place policy {} failed for layer {}: {}", name_, at.layer, error.what()));
  }
}

std::vector<LayerPlacement> ExpertPlacer::place(const std::vector<LayerLoad>& loads, std::vector<UnitRoom> rooms, std::uint32_t rows) {
  VITRO_CHECK(loads.size() == options_.layers && rooms.size() == options_.by_load.units, "layers or units that the rule does not know");
  for (UnitRoom& room : rooms) {
    room.graphs = std::min(room.graphs, options_.layers * options_.experts);
    room.bytes = std::min(room.bytes, options_.layers * options_.experts * options_.expert_bytes);
  }
  std::optional<bool> names;
  std::vector<LayerPlacement> layers;
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    const LayerToPlace at{layer, loads[layer], rooms, rows};
    const Answer answer{name_, at, ask(at)};
    for (const ExpertGraph& graph : answer.graphs) {
      if (names.value_or(graph.unit.has_value()) != graph.unit.has_value())
        answer.refuse("units for all graphs, or for none", "graphs with and without a unit, or an earlier layer has the other kind");
      names = graph.unit.has_value();
    }
    names_units_ = names.value_or(false);
    std::vector<UnitRoom> left = rooms;
    layers.push_back(laid_out(answer, left));
    rooms = std::move(left);
  }
  return layers;
}

}  // namespace vitro
