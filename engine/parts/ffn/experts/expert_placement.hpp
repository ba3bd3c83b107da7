// Which experts of a layer share static graphs, how many rows each has there, and which unit runs each: asked of a rule ahead of the first
// token, and again whenever tiers follow a load that drifted. Pure bookkeeping, deterministic.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/registry.hpp"
#include "engine/parts/ffn/experts/graph_residency.hpp"

namespace vitro {

// What does not change in a run.
struct PlaceOptions {
  std::uint32_t layers = 0;    // that have experts
  std::uint32_t experts = 0;   // of each of them
  std::uint32_t chunk = 0;     // rows of a full step of prefill
  std::uint32_t multiple = 1;  // of which the rows of a slice are one
  Bytes expert_bytes = 0;      // weights of an expert
  // `group` (most experts of one graph) and `units` (that run graphs) hold for every rule; the rest is of the one by load.
  GroupRule by_load;
};

// A layer that a rule is asked about. Layers come in order, from the first one on.
struct LayerToPlace {
  std::size_t layer = 0;  // counts from the first one with experts
  const LayerLoad& load;
  // What each unit still takes in this layer and those behind it, no more than all of their experts could use. Where graphs name no unit,
  // in all layers.
  const std::vector<UnitRoom>& rooms;
  std::uint32_t rows = 0;  // of all slices of the layer: what there is memory for
};

struct ExpertGraph {
  std::vector<std::uint16_t> experts;  // in the order of their slices
  std::uint32_t rows = 0;              // of each slice; a multiple of PlaceOptions::multiple
  std::optional<std::uint32_t> unit;   // none: the engine chooses
};

class ExpertPlacement {
 public:
  virtual ~ExpertPlacement() = default;
  // The layer's graphs; cores compute the experts that are in none. Either all graphs of all layers name a unit, which then holds them for
  // good, or none does: then units keep the graphs that expect the most rows, and the others are what engine.ffn.experts.beyond says.
  virtual std::vector<ExpertGraph> place(const LayerToPlace& at) = 0;
  // Rows of all slices of such a layer at most: memory is leased for them before the first place(), which gets it as LayerToPlace::rows.
  virtual std::uint32_t most_rows(const LayerLoad& load) const;  // as many slices as experts, of the largest capacity
};

struct PlaceRule {
  std::string name, description;
  std::function<std::unique_ptr<ExpertPlacement>(const PlaceOptions&)> make;
};

// "load": experts of one tier and of like load share a graph, cold ones are the cores' (expert_groups.hpp, NPUMoE 4.2 and 4.3). "hottest":
// of each layer the experts that expect the most rows, as many as its equal share of the units' room holds, spread over all units; none is
// cold for its small load. "cores": no graphs. All of them; a plug-in may add to it before a run.
Registry<PlaceRule>& place_rules();

// A rule with what is asked of its answers: each expert at most once, no graph of more experts than PlaceOptions admit, slices of 1 to a
// chunk's rows that are a multiple, units that exist and have room. What a rule throws is told with its name.
class ExpertPlacer {
 public:
  ExpertPlacer(const PlaceRule& rule, const PlaceOptions& options) : name_(rule.name), options_(options), rule_(rule.make(options)) {}

  // Asks for every layer. `rooms`: of each unit. `rows`: what a layer has memory for. Throws RunError that names the rule and the layer for
  // an answer that is not possible. Requires: as many loads as layers.
  std::vector<LayerPlacement> place(const std::vector<LayerLoad>& loads, std::vector<UnitRoom> rooms, std::uint32_t rows);
  // Whether the graphs of the last place() are on units of the rule's own choice.
  bool names_units() const { return names_units_; }
  std::uint32_t most_rows(const std::vector<LayerLoad>& loads) const;  // of any layer

 private:
  struct Answer;
  std::vector<ExpertGraph> ask(const LayerToPlace& at) const;
  LayerPlacement laid_out(const Answer& answer, std::vector<UnitRoom>& rooms) const;

  std::string name_;
  PlaceOptions options_;
  std::unique_ptr<ExpertPlacement> rule_;
  bool names_units_ = false;
};

}  // namespace vitro
