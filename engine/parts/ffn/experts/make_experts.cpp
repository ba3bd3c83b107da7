#include "engine/parts/ffn/experts/make_experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/parts/ffn/experts/tiered_experts.hpp"

namespace vitro {
namespace {

// What suits all units: any of them may get any graph.
TierRule tier_rule(const FfnSetup& setup, const MoeConfig& moe, const std::vector<ComputeUnit*>& units) {
  std::uint32_t own = 1;
  for (const ComputeUnit* unit : units) own = std::lcm(own, std::max(unit->caps().shape_multiple, 1u));
  TierRule rule;
  rule.chunk = setup.prefill_chunk;
  rule.experts_used = setup.model.experts_used;
  rule.tiers = moe.tiers;
  rule.base_of = moe.base_of;
  rule.base = moe.base;
  rule.max_drop = moe.max_drop;
  rule.multiples = moe.multiples;
  rule.capacity = moe.capacity;
  rule.multiple = moe.shape_multiple > 0 ? moe.shape_multiple : own;
  if (rule.multiple % own != 0) {
    throw ConfigError(fmt::format("engine.ffn.experts.shape_multiple: {} is not possible on {} (expected a multiple of {})", rule.multiple,
                                  units.front()->caps().name, own));
  }
  return rule;
}

void check_loads(const MoeConfig& moe, const ModelConfig& config) {
  if (moe.loads.size() != config.layers - config.dense_layers) {
    throw ConfigError(fmt::format("engine.ffn.experts.loads: has {} layers, but the model has {} (expected the loads of this model)",
                                  moe.loads.size(), config.layers - config.dense_layers));
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

Bytes expert_bytes(const WeightStore& weights, int layer) {
  if (const Weight* bundles = weights.find(Role::ffn_bundle, layer)) return bundles->matrix_bytes();
  Bytes sum = 0;
  for (const Role role : {Role::ffn_gate, Role::ffn_up, Role::ffn_down}) sum += weights.get(role, layer).matrix_bytes();
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
  // Few rows, and a launch that is worth it: B / E of the paper's models, whose k is 2, and half a group of them ("2 x 8" of section 4.3 is
  // below it).
  const bool by_pairs = tiers.base == 0 && tiers.base_of == BaseOf::pairs;
  rule.cold_rows = base_capacity(config.experts, tiers) / (by_pairs ? 2.0 : 1.0);
  rule.launch_rows = std::min(rule.group, config.experts) * rule.cold_rows / 2;
  rule.max_padding = moe.max_padding;
  rule.units = static_cast<std::uint32_t>(units.size());
  return rule;
}

std::shared_ptr<ExpertPlacer> placer(const MoeConfig& moe, const ModelConfig& model, const ExpertLayers& layers) {
  const PlaceRule* rule = place_rules().find(moe.place);
  VITRO_CHECK(rule != nullptr, "a rule for places that nobody checked");
  return std::make_shared<ExpertPlacer>(*rule, PlaceOptions{static_cast<std::uint32_t>(moe.loads.size()), model.experts, layers.tiers.chunk,
                                                            layers.tiers.multiple, layers.expert_bytes, layers.rule});
}

ExpertLayers expert_layers(const FfnSetup& setup, const MoeConfig& moe, const std::vector<ComputeUnit*>& units) {
  check_loads(moe, setup.model);
  const TierRule tiers = tier_rule(setup, moe, units);
  ExpertLayers layers;
  layers.shares = moe.loads;
  layers.tiers = tiers;
  const DriftRule* drift = drift_rules().find(moe.drift);
  VITRO_CHECK(drift != nullptr, "a rule for drift that nobody checked");
  if (drift->make) layers.drift = drift->make();
  layers.counts = moe.counts;
  layers.loads = layer_loads(moe.loads, moe.counts, tiers);
  layers.expert_bytes = expert_bytes(setup.weights, static_cast<int>(setup.model.dense_layers));
  layers.rule = group_rule(moe, setup.model, tiers, layers.expert_bytes, units);
  layers.placer = placer(moe, setup.model, layers);
  layers.cold_by_time = moe.cold_by_time && moe.residency;
  layers.resident = moe.resident;
  layers.comes = moe.comes;
  layers.attention = setup.placement.attention_graphs().unit;
  return layers;
}

}  // namespace

Ffn make_experts(const FfnSetup& setup, const MoeConfig& experts, const MakeNeurons& neurons) {
  const ModelConfig& model = setup.model;
  if (model.experts == 0)
    throw ConfigError("engine.ffn.kind: experts needs a model with experts, and this one has none (expected dense or clusters)");
  if (model.dense_layers >= model.layers) {
    throw ConfigError(
        fmt::format("engine.ffn.kind: experts needs a layer with experts, but all {} have one FFN (expected dense)", model.layers));
  }
  TieredOptions options;
  options.cores = chain_units(setup.machine, setup.placement);
  options.units = setup.placement.graph_units();
  options.placements.resize(model.layers - model.dense_layers);
  options.first_layer = static_cast<std::int16_t>(model.dense_layers);
  for (LayerPlacement& layer : options.placements) layer.capacity.resize(model.experts);
  options.layers.attention = setup.placement.attention_graphs().unit;
  if (experts.graphs) {
    if (options.units.empty()) {
      throw ConfigError(
          "engine.placement.graph_units: is empty, and no unit of the run has static graphs (expected an accelerator, or a core in its "
          "place)");
    }
    options.layers = expert_layers(setup, experts, options.units);
  }
  options.exact = experts.exact;
  const bool own_graphs = options.exact && (neurons || !setup.residency.stays());
  if (own_graphs) options.graphs_of_launches = std::make_shared<GraphCache>(setup.machine, &setup.graphs, false);
  GraphCache& graphs = own_graphs ? *options.graphs_of_launches : setup.graphs;
  options.overflow = experts.overflow;
  options.ranking = experts.ranking;
  options.side_by_side = experts.side_by_side;
  options.max_rows = setup.max_rows;
  options.graph_rows = experts.graph_rows > 0 ? experts.graph_rows : std::max(setup.prefill_chunk / 4, 1u);
  options.host_per_token = experts.host_per_token;
  options.asked = {setup.matmul, setup.prefill_matmul, setup.accelerator_matmul};
  options.decode_rows = setup.decode_rows;
  options.activation = model.activation;
  options.activations = setup.activations;
  options.width = model.width;
  options.ffn = model.ffn;
  options.experts_used = model.experts_used;
  if (neurons) {
    const std::uint32_t slices = options.layers.placer ? options.layers.placer->most_rows(options.layers.loads) : 0;
    if (slices > 0) options.on_units = neurons(options.units, slices, graphs);
    options.on_cores = neurons(options.cores, options.max_rows * options.experts_used, setup.graphs);
  }
  return {nullptr, std::make_unique<TieredExperts>(setup.machine, graphs, setup.weights, setup.residency, std::move(options))};
}

}  // namespace vitro
