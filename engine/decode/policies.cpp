#include "engine/decode/policies.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/decode/mmap_residency.hpp"
#include "engine/ffn/cluster_residency.hpp"

namespace vitro {
namespace {

std::vector<ComputeUnit*> select_units(const Machine& machine, const EngineConfig& engine) {
  if (engine.units.empty()) {
    std::vector<ComputeUnit*> cores;
    for (ComputeUnit* unit : machine.units) {
      if (unit->caps().name.starts_with("cpu") && cores.size() < engine.threads) cores.push_back(unit);
    }
    if (cores.size() < engine.threads) {
      throw ConfigError(fmt::format("engine.threads: {} are asked for, but the machine has {} cores", engine.threads, cores.size()));
    }
    return cores;
  }
  std::vector<ComputeUnit*> units;
  for (const std::string& name : engine.units) {
    const auto found =
        std::find_if(machine.units.begin(), machine.units.end(), [&](const ComputeUnit* u) { return u->caps().name == name; });
    if (found == machine.units.end()) {
      std::vector<std::string> known;
      for (const ComputeUnit* unit : machine.units) known.push_back(unit->caps().name);
      throw ConfigError(
          fmt::format("engine.units: there is no \"{}\" on this machine (expected some of: {})", name, fmt::join(known, ", ")));
    }
    if (std::find(units.begin(), units.end(), *found) != units.end())
      throw ConfigError(fmt::format("engine.units: \"{}\" is named twice", name));
    if ((*found)->caps().static_graphs) {
      throw ConfigError(
          fmt::format("engine.units: {} runs loaded graphs only, and the {} policy makes none (expected cores)", name, engine.policy));
    }
    units.push_back(*found);
  }
  return units;
}

// What the engine keeps beside weights and activations: names, extents and page records. Charged so that the budget is
// that of the whole process.
Bytes runtime_bytes(const ModelConfig& config, const WeightStore& weights) {
  constexpr Bytes kPerToken = 64, kPerPage = 32, kPerWeight = 512;
  return config.vocab * kPerToken + weights.total_bytes() / kPageSize * kPerPage + weights.all().size() * kPerWeight;
}

Bytes kv_bytes(const ModelConfig& config, const EngineConfig& engine, std::uint32_t tokens) {
  const Bytes element = engine.kv_format == Format::f16 ? 2 : 4;
  return round_up(tokens, engine.kv_block_tokens) * config.layers * 2 * config.kv_width() * element;
}

ComputeUnit* unit_named(const Machine& machine, const std::string& name, std::string_view key) {
  for (ComputeUnit* unit : machine.units) {
    if (unit->caps().name == name) return unit;
  }
  throw ConfigError(fmt::format("{}: there is no \"{}\" on this machine", key, name));
}

void make_clusters(Policy& policy, Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& config,
                   const WeightStore& weights, const PolicyLimits& limits) {
  const ClusterConfig& clusters = engine.clusters;
  ClusterFfnOptions options;
  options.pipeline.units = select_units(machine, engine);
  options.pipeline.kind = clusters.pipeline == "none"     ? PipelineKind::none
                          : clusters.pipeline == "matrix" ? PipelineKind::matrix
                                                          : PipelineKind::cluster;
  const ComputeUnit* io_core =
      clusters.io_core.empty() ? options.pipeline.units.back() : unit_named(machine, clusters.io_core, "engine.clusters.io_core");
  options.pipeline.io_core = io_core->caps().id;
  options.pipeline.io_depth = clusters.io_depth;
  options.cluster_neurons = clusters.neurons;
  options.dense_rows = clusters.dense_rows;
  options.max_rows = limits.max_rows * std::max(config.experts_used, 1u);
  options.matmul = engine.matmul;
  options.activation = config.activation;
  if (!config.firing_thresholds.empty()) options.thresholds = config.firing_thresholds;
  if (clusters.threshold) options.thresholds = {*clusters.threshold};
  options.measure = clusters.measure;

  NeuronStoreOptions store;
  store.eviction = clusters.eviction;
  store.ffn_in_dram = memory.ffn_in_dram;
  store.staging = clusters.staging;
  store.keep_free = kv_bytes(config, engine, limits.max_tokens);
  const bool predicts = clusters.predictors && config.predictor_rank > 0;
  auto residency = std::make_unique<ClusterResidency>(machine, weights, std::move(store), io_core->caps().id, predicts);
  std::unique_ptr<Predictor> predictor;
  if (predicts) {
    PredictorOptions predictor_options{options.pipeline.units, options.max_rows, engine.matmul, config.predictor_thresholds, {}, true};
    predictor_options.relu = config.predictor_relu;
    const bool rectified = config.activation == Activation::relu || config.activation == Activation::relu_squared;
    if (!config.predictor_relu && !rectified) predictor_options.activation = config.activation;
    predictor = std::make_unique<Predictor>(machine, weights, *residency, std::move(predictor_options));
  }
  std::unique_ptr<HotRegion> hot;
  if (const HybridConfig& hybrid = engine.hybrid; !hybrid.unit.empty()) {
    ComputeUnit* unit = unit_named(machine, hybrid.unit, "engine.hybrid.unit");
    // Two requests under way, so that the next one is there when one ends.
    if (hybrid.prefill) options.pipeline.dense_units = {unit, unit};
    HotRegionOptions hot_options;
    hot_options.unit = unit;
    for (const HybridConfig::Split& split : hybrid.splits) hot_options.splits.push_back({split.batch, split.hot});
    hot_options.cluster_neurons = hybrid.cluster;
    hot_options.in_dram = hybrid.in_dram;
    hot_options.max_rows = std::min(options.max_rows, options.dense_rows * std::max(config.experts_used, 1u));
    hot_options.io_core = options.pipeline.io_core;
    hot_options.io_depth = clusters.io_depth;
    hot_options.matmul = engine.matmul;
    hot_options.activation = config.activation;
    hot = std::make_unique<HotRegion>(machine, *policy.graphs, residency->store(), std::move(hot_options));
  }
  options.dense_neurons = engine.hybrid.unit.empty() ? options.cluster_neurons : engine.hybrid.cluster;
  auto ffn =
      std::make_unique<ClusterFfn>(machine, *policy.graphs, residency->store(), std::move(predictor), std::move(hot), std::move(options));
  residency->counts(*ffn);
  policy.residency = std::move(residency);
  policy.ffn = std::move(ffn);
}

}  // namespace

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> kPolicies{
      {"dense", "all weights in DRAM, every matrix computed whole, split over the chosen units"},
      {"mmap", "weights paged in on demand (4 KiB, LRU, read-ahead); a fault blocks the core that computes, as in llama.cpp"},
      {"neuron_cluster", "FFNs neuron by neuron: what fires is computed, cached and read in clusters that overlap (PowerInfer-2)"}};
  return kPolicies;
}

Policy make_policy(Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& config,
                   const WeightStore& weights, const PolicyLimits& limits) {
  Policy policy;
  policy.graphs = std::make_unique<GraphCache>(machine);
  Result<Lease> runtime = machine.memory.lease(runtime_bytes(config, weights), Placement::dram, Region::runtime);
  if (!runtime.ok()) throw ConfigError("memory.budget: " + runtime.status().message);
  policy.runtime = std::move(runtime).value();

  if ((engine.policy == "dense" || engine.policy == "mmap") && weights.find(Role::ffn_bundle, 0) != nullptr) {
    throw ConfigError(
        fmt::format("engine.policy: {} reads whole matrices, but the FFN is stored as neuron bundles (expected layout rows "
                    "or tiled)",
                    engine.policy));
  }
  if (engine.policy == "dense") {
    if (memory.ffn_in_dram.value_or(1) < 1) {
      throw ConfigError("memory.ffn_in_dram: the dense policy keeps all weights in DRAM (expected 100%, or engine.policy: mmap)");
    }
    policy.residency = std::make_unique<DenseResidency>(machine, weights);
  } else if (engine.policy == "mmap") {
    policy.residency = std::make_unique<MmapResidency>(
        machine, weights, MmapOptions{engine.read_ahead, memory.ffn_in_dram, kv_bytes(config, engine, limits.max_tokens)});
  } else if (engine.policy == "neuron_cluster") {
    make_clusters(policy, machine, engine, memory, config, weights, limits);
  } else {
    std::vector<std::string_view> names;
    for (const PolicyInfo& info : policies()) names.push_back(info.name);
    throw ConfigError(fmt::format("engine.policy: \"{}\" is not known (expected one of: {})", engine.policy, fmt::join(names, ", ")));
  }

  TransformerOptions options;
  options.units = select_units(machine, engine);
  if (const HybridConfig& hybrid = engine.hybrid; !hybrid.unit.empty()) {
    options.accelerator.unit = unit_named(machine, hybrid.unit, "engine.hybrid.unit");
    options.units.push_back(options.accelerator.unit);
    for (const HybridConfig::Split& split : hybrid.splits)
      options.accelerator.splits.push_back({split.batch, split.attention, split.hot, split.head});
    if (hybrid.prefill) options.accelerator.splits.push_back({~0u, 1, 1, hybrid.splits.back().head});
  }
  options.matmul = engine.matmul;
  options.kv_format = engine.kv_format;
  options.kv_block_tokens = engine.kv_block_tokens;
  options.max_rows = limits.max_rows;
  options.max_sampled = limits.max_sampled;
  options.max_tokens = limits.max_tokens;
  options.max_position = limits.max_position;
  options.report_active = !engine.record.empty();
  policy.transformer =
      std::make_unique<Transformer>(machine, config, weights, *policy.residency, *policy.graphs, policy.ffn.get(), std::move(options));
  return policy;
}

}  // namespace vitro
