#include "engine/parts/placement/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace vitro {

const Accelerator::Split& Accelerator::split(std::uint32_t rows) const {
  const auto found = std::find_if(splits.begin(), splits.end(), [rows](const Split& split) { return rows <= split.rows; });
  return found == splits.end() ? splits.back() : *found;
}

double Accelerator::Split::ffn_of(std::int16_t layer) const {
  if (layer < 0 || static_cast<std::size_t>(layer) >= by_layer.size()) return ffn;
  const std::vector<double>& own = by_layer[static_cast<std::size_t>(layer)];
  return std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
}

Shares Accelerator::with_own(std::size_t units, double own) {
  Shares shares(units, (1 - own) / static_cast<double>(units - 1));
  shares.back() = own;
  return shares;
}

Shares Accelerator::shares(std::size_t units, BlockKind kind, std::uint32_t rows, bool heads) const {
  if (unit == nullptr) return Shares(units, 1.0);
  const Split& split = this->split(rows);
  const double own = kind == BlockKind::attention ? (heads ? split.heads.value_or(split.attention) : split.attention)
                     : kind == BlockKind::ffn     ? split.ffn
                     : kind == BlockKind::head    ? split.head
                                                  : 0;
  return with_own(units, own);
}

void check_by_layer(const PlacementConfig::Split& split, const ModelConfig& model) {
  if (split.hot_by_layer.empty()) return;
  if (split.hot_by_layer.size() != model.layers) {
    throw ConfigError(fmt::format("{}: has {} entries (expected one for each of the model's {} layers)", split.by_layer_at,
                                  split.hot_by_layer.size(), model.layers));
  }
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::size_t shares = split.hot_by_layer[layer].size(), experts = model.has_experts(static_cast<int>(layer)) ? model.experts : 1;
    if (shares == 1 || shares == experts) continue;
    throw ConfigError(fmt::format("{}: has {} shares for layer {} (expected 1{})", split.by_layer_at, shares, layer,
                                  experts > 1 ? fmt::format(", or one for each of its {} experts", experts) : ""));
  }
}

bool is_core(const ComputeUnit& unit) { return unit.caps().kind == UnitKind::core; }

ComputeUnit* unit_named(const Machine& machine, const std::string& name, std::string_view key) {
  std::vector<std::string> known;
  for (ComputeUnit* unit : machine.units) {
    if (unit->caps().name == name) return unit;
    known.push_back(unit->caps().name);
  }
  throw ConfigError(fmt::format("{}: there is no \"{}\" on this machine (expected some of: {})", key, name, fmt::join(known, ", ")));
}

std::vector<ComputeUnit*> chain_units(const Machine& machine, const UnitPlacement& placement) {
  std::vector<ComputeUnit*> units;
  std::ranges::copy_if(placement.cores(), std::back_inserter(units), [](const auto* unit) { return !unit->caps().static_graphs; });
  if (!units.empty()) return units;
  const auto first = std::ranges::find_if(machine.units, [](const auto* unit) { return !unit->caps().static_graphs; });
  return {first == machine.units.end() ? machine.units.front() : *first};
}

std::vector<ComputeUnit*> select_units(const Machine& machine, const PlacementConfig& config) {
  std::vector<ComputeUnit*> units;
  for (const std::string& name : config.units) {
    ComputeUnit* unit = unit_named(machine, name, "engine.units");
    if (std::ranges::find(units, unit) != units.end()) throw ConfigError(fmt::format("engine.units: \"{}\" is named twice", name));
    units.push_back(unit);
  }
  if (!config.units.empty()) return units;
  for (ComputeUnit* unit : machine.units) {
    if (is_core(*unit) && (config.threads == 0 || units.size() < config.threads)) units.push_back(unit);
  }
  if (units.size() < config.threads) {
    throw ConfigError(fmt::format("engine.threads: {} threads, but the machine has {} cores", config.threads, units.size()));
  }
  return units;
}

}  // namespace vitro
