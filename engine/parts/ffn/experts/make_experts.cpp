#include "engine/parts/ffn/experts/make_experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/parts/ffn/experts/tiered_experts.hpp"

namespace vitro {
namespace {

TierRule tier_rule(const FfnSetup& setup, const MoeConfig& moe, const ComputeUnit& unit) {
  const std::uint32_t own = std::max(unit.caps().shape_multiple, 1u);
  TierRule rule;
  rule.chunk = setup.prefill_chunk;
  rule.experts_used = setup.model.experts_used;
  rule.tiers = moe.tiers;
  rule.base = moe.base;
  rule.multiples = moe.multiples;
  rule.capacity = moe.capacity;
  rule.multiple = moe.shape_multiple > 0 ? moe.shape_multiple : own;
  if (rule.multiple % own != 0) {
    throw ConfigError(fmt::format("engine.ffn.experts.shape_multiple: {} is not possible on {} (expected a multiple of {})", rule.multiple,
                                  unit.caps().name, own));
  }
  return rule;
}

void check_loads(const MoeConfig& moe, const ModelConfig& config) {
  if (moe.loads.size() != config.layers) {
    throw ConfigError(fmt::format("engine.ffn.experts.loads: has {} layers, but the model has {} (expected the loads of this model)",
                                  moe.loads.size(), config.layers));
  }
  for (const std::vector<double>& layer : moe.loads) {
    const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
    if (layer.size() != config.experts || !(std::abs(sum - 1) <= 1e-3)) {
      throw ConfigError(fmt::format(
          "engine.ffn.experts.loads: a layer has {} experts, and their shares add up to {:.3f} (expected {} experts and a sum of 1)",
          layer.size(), sum, config.experts));
    }
  }
}

Bytes expert_bytes(const WeightStore& weights) {
  if (const Weight* bundles = weights.find(Role::ffn_bundle, 0)) return bundles->matrix_bytes();
  Bytes sum = 0;
  for (const Role role : {Role::ffn_gate, Role::ffn_up, Role::ffn_down}) sum += weights.get(role, 0).matrix_bytes();
  return sum;
}

GroupRule group_rule(const MoeConfig& moe, const ModelConfig& config, const TierRule& tiers, Bytes expert,
                     const std::vector<ComputeUnit*>& units) {
  GroupRule rule;
  rule.group = moe.groups ? moe.group : 1;
  for (const ComputeUnit* unit : units) {
    const Bytes limit = unit->caps().graph_weights;
    if (limit > 0) rule.group = std::min(rule.group, static_cast<std::uint32_t>(std::max<Bytes>(limit / expert, 1)));
  }
  rule.residency = moe.residency;
  rule.cold = static_cast<std::uint32_t>(moe.cold * config.experts);
  rule.base = base_capacity(config.experts, tiers);
  rule.units = static_cast<std::uint32_t>(units.size());
  return rule;
}

std::vector<LayerPlacement> placements(const FfnSetup& setup, const MoeConfig& moe, const std::vector<ComputeUnit*>& units) {
  check_loads(moe, setup.model);
  const TierRule tiers = tier_rule(setup, moe, *units.front());
  const GroupRule groups = group_rule(moe, setup.model, tiers, expert_bytes(setup.weights), units);
  const std::vector<std::vector<std::uint32_t>> shapes = capacities(moe.loads, tiers);
  std::vector<LayerPlacement> out;
  for (std::size_t layer = 0; layer < shapes.size(); ++layer) {
    std::vector<double> expected;
    for (const double share : moe.loads[layer]) expected.push_back(expected_rows(share, tiers));
    out.push_back(place_experts(expected, shapes[layer], groups));
  }
  return out;
}

}  // namespace

Ffn make_experts(const FfnSetup& setup, const MoeConfig& experts, const MakeNeurons& neurons) {
  const ModelConfig& model = setup.model;
  if (model.experts == 0)
    throw ConfigError("engine.ffn.kind: experts needs a model with experts, and this one has none (expected dense or clusters)");
  TieredOptions options;
  options.cores = chain_units(setup.machine, setup.placement);
  options.units = setup.placement.graph_units();
  options.placements.resize(model.layers);
  for (LayerPlacement& layer : options.placements) layer.capacity.resize(model.experts);
  if (experts.graphs) {
    if (options.units.empty()) {
      throw ConfigError(
          "engine.placement.graph_units: is empty, and no unit of the run has static graphs (expected an accelerator, or a core in its "
          "place)");
    }
    options.placements = placements(setup, experts, options.units);
  }
  options.overflow = experts.overflow;
  options.side_by_side = experts.side_by_side;
  options.max_rows = setup.max_rows;
  options.graph_rows = experts.graph_rows > 0 ? experts.graph_rows : std::max(setup.prefill_chunk / 4, 1u);
  options.host_per_token = experts.host_per_token;
  options.matmul = setup.matmul;
  options.activation = model.activation;
  options.activations = setup.activations;
  options.width = model.width;
  options.ffn = model.ffn;
  options.experts_used = model.experts_used;
  if (neurons) {
    std::uint32_t slices = 0;
    for (const LayerPlacement& layer : options.placements) slices = std::max(slices, layer.rows);
    if (slices > 0) options.on_units = neurons(options.units, slices);
    options.on_cores = neurons(options.cores, options.max_rows * options.experts_used);
  }
  return {nullptr, std::make_unique<TieredExperts>(setup.machine, setup.graphs, setup.weights, setup.residency, std::move(options))};
}

}  // namespace vitro
