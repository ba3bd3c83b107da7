#include "engine/moe/moe_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vitro {
namespace {

MoeConfig naive_defaults() {
  MoeConfig moe;
  moe.tiers = moe.groups = moe.residency = moe.side_by_side = moe.attention = false;
  return moe;
}

// Weights in DRAM, then graphs on their units: both before the first token.
class GraphResidency final : public DenseResidency {
 public:
  GraphResidency(Machine& machine, const WeightStore& weights) : DenseResidency(machine, weights) {}
  Task<void> load() override {
    co_await DenseResidency::load();
    // A unit holds so many graphs and no more: one per layer before several.
    if (transformer != nullptr) co_await transformer->load_attention_graphs();
    if (experts != nullptr) co_await experts->load();
  }
  TieredExperts* experts = nullptr;
  Transformer* transformer = nullptr;
};

std::vector<ComputeUnit*> graph_units(const Machine& machine, const MoeConfig& moe) {
  std::vector<ComputeUnit*> units;
  std::vector<std::string> names;
  for (ComputeUnit* unit : machine.units) {
    names.push_back(unit->caps().name);
    if (moe.units.empty() && unit->caps().static_graphs) units.push_back(unit);
  }
  for (const std::string& name : moe.units) {
    const auto found = std::ranges::find(machine.units, name, [](const ComputeUnit* unit) { return unit->caps().name; });
    if (found == machine.units.end()) {
      throw ConfigError(
          fmt::format("engine.moe.units: there is no \"{}\" on this machine (expected some of: {})", name, fmt::join(names, ", ")));
    }
    units.push_back(*found);
  }
  if (units.empty()) {
    throw ConfigError(
        "engine.moe.units: is empty, and no unit of the run has static graphs (expected an accelerator, or a core in its place)");
  }
  return units;
}

TierRule tier_rule(const EngineConfig& engine, const ModelConfig& config, const ComputeUnit& unit) {
  const MoeConfig& moe = engine.moe;
  const std::uint32_t own = std::max(unit.caps().shape_multiple, 1u);
  TierRule rule;
  rule.chunk = engine.prefill_chunk;
  rule.experts_used = config.experts_used;
  rule.tiers = moe.tiers;
  rule.base = moe.base;
  rule.multiples = moe.multiples;
  rule.capacity = moe.capacity;
  rule.multiple = moe.shape_multiple > 0 ? moe.shape_multiple : own;
  if (rule.multiple % own != 0) {
    throw ConfigError(
        fmt::format("engine.moe.shape_multiple: {} does not suit {} (expected a multiple of {})", rule.multiple, unit.caps().name, own));
  }
  return rule;
}

void check_loads(const MoeConfig& moe, const ModelConfig& config) {
  if (moe.loads.size() != config.layers) {
    throw ConfigError(fmt::format("engine.moe.loads: {} layers, and the model has {} (expected a calibration of this model)",
                                  moe.loads.size(), config.layers));
  }
  for (const std::vector<double>& layer : moe.loads) {
    const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
    if (layer.size() != config.experts || !(std::abs(sum - 1) <= 1e-3)) {
      throw ConfigError(fmt::format("engine.moe.loads: a layer of {} experts whose shares add up to {:.3f} (expected {} that add up to 1)",
                                    layer.size(), sum, config.experts));
    }
  }
}

Bytes expert_bytes(const WeightStore& weights) {
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

std::vector<LayerPlacement> placements(const EngineConfig& engine, const ModelConfig& config, const WeightStore& weights,
                                       const std::vector<ComputeUnit*>& units) {
  check_loads(engine.moe, config);
  const TierRule tiers = tier_rule(engine, config, *units.front());
  const GroupRule groups = group_rule(engine.moe, config, tiers, expert_bytes(weights), units);
  const std::vector<std::vector<std::uint32_t>> shapes = capacities(engine.moe.loads, tiers);
  std::vector<LayerPlacement> out;
  for (std::size_t layer = 0; layer < shapes.size(); ++layer) {
    std::vector<double> expected;
    for (const double share : engine.moe.loads[layer]) expected.push_back(expected_rows(share, tiers));
    out.push_back(place_experts(expected, shapes[layer], groups));
  }
  return out;
}

}  // namespace

const std::vector<MoeFamily>& moe_families() {
  static const std::vector<MoeFamily> kFamilies{
      {"npumoe",
       "a mixture's experts in tiers and groups as static graphs on the neural engine, cold ones on cores, a chunk's attention on the "
       "engine (NPUMoE)",
       true, true},
      {"coreml_naive", "one static graph of one shape per expert, launched one after the other; all else on cores", true, false,
       naive_defaults()},
      {"anemll", "a chunk's attention on the neural engine, experts on cores, as ANEMLL", false, true},
      {"coreml_cpu", "a mixture on cores alone, by the same kernels", false, false}};
  return kFamilies;
}

const MoeFamily* find_moe_family(std::string_view policy) {
  const auto& families = moe_families();
  const auto found = std::ranges::find(families, policy, &MoeFamily::policy);
  return found == families.end() ? nullptr : &*found;
}

MoeParts make_moe_policy(Machine& machine, const EngineConfig& engine, const ModelConfig& config, const WeightStore& weights,
                         std::vector<ComputeUnit*> cores, std::uint32_t max_rows) {
  const MoeFamily& family = *find_moe_family(engine.policy);
  if (config.experts == 0) {
    throw ConfigError(
        fmt::format("engine.policy: {} is for mixtures, and the model has no experts (expected another policy)", engine.policy));
  }
  if (config.sub_norms) throw ConfigError(fmt::format("engine.policy: {} has no norms within FFNs", engine.policy));
  TieredOptions options;
  options.cores = cores;
  options.placements.resize(config.layers);
  for (LayerPlacement& layer : options.placements) layer.capacity.resize(config.experts);
  if (family.experts || family.attention) options.units = graph_units(machine, engine.moe);
  if (family.experts) options.placements = placements(engine, config, weights, options.units);
  options.overflow = engine.moe.overflow;
  options.side_by_side = engine.moe.side_by_side;
  options.max_rows = max_rows;
  options.graph_rows = engine.moe.graph_rows > 0 ? engine.moe.graph_rows : std::max(engine.prefill_chunk / 4, 1u);
  options.host_per_token = engine.moe.host_per_token;
  options.matmul = engine.matmul;
  options.activation = config.activation;
  options.width = config.width;
  options.ffn = config.ffn;
  options.experts_used = config.experts_used;

  MoeParts parts;
  ComputeUnit* const first = options.units.empty() ? nullptr : options.units.front();
  if (family.attention && engine.moe.attention && first->caps().static_graphs) {
    if (engine.kv_format != Format::f16) {
      throw ConfigError(fmt::format("engine.kv_format: {}, which {} does not attend over (expected f16, or engine.moe.attention: cores)",
                                    to_string(engine.kv_format), first->caps().name));
    }
    if (engine.kv_dram_tokens) {
      throw ConfigError(
          fmt::format("engine.kv_dram_tokens: {} does not attend to keys and values in flash (expected cores alone)", first->caps().name));
    }
    parts.attention = std::make_unique<OffloadUnit>(machine, *cores.front(), *first, Offloaded::attention);
  }
  auto residency = std::make_unique<GraphResidency>(machine, weights);
  parts.experts = std::make_unique<TieredExperts>(machine, weights, *residency, std::move(options));
  residency->experts = parts.experts.get();
  parts.residency = std::move(residency);
  return parts;
}

void set_units(const MoeParts& parts, std::uint32_t chunk, std::vector<ComputeUnit*> cores, TransformerOptions& options) {
  options.units = std::move(cores);
  if (parts.attention == nullptr) return;
  options.units.push_back(parts.attention.get());
  options.accelerator.unit = parts.attention.get();
  if (chunk > 1) options.accelerator.splits.push_back({chunk - 1, 0, 0, 0});
  options.accelerator.splits.push_back({chunk, 1, 0, 0});
  options.accelerator.splits.push_back({~0u, 0, 0, 0});  // another shape: of more sequences than a chunk has rows
  options.attention_graphs = {parts.attention.get(), chunk};
}

void load_with(Residency& residency, Transformer& transformer) { dynamic_cast<GraphResidency&>(residency).transformer = &transformer; }

}  // namespace vitro
