#include "engine/ffn/cluster_policy.hpp"

#include <algorithm>

#include "engine/ffn/cluster_residency.hpp"
#include "engine/ffn/window_steps.hpp"

namespace vitro {
namespace {

ClusterConfig llmflash_defaults() {
  ClusterConfig clusters;
  clusters.pipeline = "none";
  clusters.eviction = "window";
  clusters.two_phases = false;
  return clusters;
}

// Its file keeps Gate, Up and Down apart, and its split is made once.
ClusterConfig powerinfer_defaults() {
  ClusterConfig clusters;
  clusters.pipeline = "matrix";
  clusters.eviction = "none";
  clusters.bundle = false;
  clusters.two_phases = false;
  return clusters;
}

PipelineKind pipeline_of(std::string_view name) {
  return name == "none" ? PipelineKind::none : name == "matrix" ? PipelineKind::matrix : PipelineKind::cluster;
}

// All three systems hand their reads to asynchronous I/O (PowerInfer-2, sections 2.4 and 4.3), so that nothing but the device holds
// them back unless an experiment does.
std::uint32_t io_depth(const ClusterConfig& clusters, const Storage& storage) {
  return clusters.io_depth > 0 ? clusters.io_depth : std::max(1u, storage.caps().queue_depth);
}

HotRegionOptions hot_options(const EngineConfig& engine, const ClusterFfnOptions& ffn, const ModelConfig& config, ComputeUnit* unit) {
  HotRegionOptions options;
  options.unit = unit;
  for (const HybridConfig::Split& split : engine.hybrid.splits) options.splits.push_back({split.batch, split.hot});
  options.cluster_neurons = engine.hybrid.cluster;
  options.in_dram = engine.hybrid.in_dram;
  options.max_rows = std::min(ffn.max_rows, ffn.dense_rows * std::max(config.experts, 1u));  // a step beyond is dense
  options.io_core = ffn.pipeline.io_core;
  options.io_depth = ffn.pipeline.io_depth;
  options.matmul = engine.matmul;
  options.activation = config.activation;
  return options;
}

}  // namespace

const std::vector<ClusterFamily>& cluster_families() {
  static const std::vector<ClusterFamily> kFamilies{
      {"neuron_cluster",
       "FFNs neuron by neuron: what fires is computed, cached and read in clusters that overlap (PowerInfer-2)",
       ClusterConfig{},
       {"none", "matrix", "cluster"},
       true,
       true},
      {"llmflash",
       "predicted neurons as row-column bundles, those of the last tokens in DRAM; reads what misses, then computes "
       "(LLM in a flash)",
       llmflash_defaults(),
       {"none"}},
      {"powerinfer",
       "hot neurons in DRAM for good, cold ones read from flash when they are predicted, beside computing within a matrix "
       "(PowerInfer, extended for flash)",
       powerinfer_defaults(),
       {"none", "matrix"}}};
  return kFamilies;
}

const ClusterFamily* find_cluster_family(std::string_view policy) {
  const auto& families = cluster_families();
  const auto found = std::ranges::find(families, policy, &ClusterFamily::policy);
  return found == families.end() ? nullptr : &*found;
}

ClusterParts make_cluster_policy(Machine& machine, GraphCache& graphs, const EngineConfig& engine, const MemoryConfig& memory,
                                 const ModelConfig& config, const WeightStore& weights, ClusterSetup setup) {
  const ClusterConfig& clusters = engine.clusters;
  ClusterFfnOptions options;
  options.pipeline.units = std::move(setup.units);
  options.pipeline.kind = pipeline_of(clusters.pipeline);
  options.pipeline.io_core = setup.io_core->caps().id;
  options.pipeline.io_depth = io_depth(clusters, machine.storage);
  options.pipeline.unit_depth = 2;
  options.cluster_neurons = clusters.neurons;
  options.dense_rows = clusters.dense_rows;
  options.max_rows = setup.max_rows * std::max(config.experts_used, 1u);
  options.matmul = engine.matmul;
  options.activation = config.activation;
  if (!config.firing_thresholds.empty()) options.thresholds = config.firing_thresholds;
  if (clusters.threshold) options.thresholds = {*clusters.threshold};
  options.measure = clusters.measure;

  NeuronStoreOptions store;
  store.eviction = clusters.eviction;
  store.window = clusters.window;
  store.two_phases = clusters.two_phases;
  store.ffn_in_dram = clusters.cache ? memory.ffn_in_dram : 0.0;
  store.staging = clusters.staging;
  store.whole_waves = options.pipeline.kind == PipelineKind::none;
  store.keep_free = setup.keep_free;
  const bool predicts = clusters.predictors && config.predictor_rank > 0;
  auto residency = std::make_unique<ClusterResidency>(machine, weights, std::move(store), options.pipeline.io_core, predicts);
  if (clusters.report_bound) options.pipeline.accesses = residency->keep_accesses();
  std::unique_ptr<Predictor> predictor;
  if (predicts) {
    PredictorOptions predictor_options{options.pipeline.units, options.max_rows, engine.matmul, config.predictor_thresholds, {}, true};
    predictor_options.relu = config.predictor_relu;
    const bool rectified = config.activation == Activation::relu || config.activation == Activation::relu_squared;
    if (!config.predictor_relu && !rectified) predictor_options.activation = config.activation;
    predictor = std::make_unique<Predictor>(machine, weights, *residency, std::move(predictor_options));
  }
  // Without predictors, or to measure them, every block is computed for every token: to keep them all would keep none until its next turn.
  options.pipeline.keep_silent = predicts && clusters.keep_silent && !clusters.measure;
  std::unique_ptr<HotRegion> hot;
  options.dense_neurons = options.cluster_neurons;
  if (ComputeUnit* unit = setup.accelerator; unit != nullptr) {
    if (engine.hybrid.prefill) options.pipeline.dense_units = {unit};
    // One large cluster (PowerInfer-2, section 4.1.1), as far as half of the staging room can hold it: the other half is being read.
    const NeuronStore& neurons = residency->store();
    options.dense_neurons = std::max(engine.hybrid.cluster, neurons.staging_blocks() / 2 * neurons.layout().per_block);
    hot = std::make_unique<HotRegion>(machine, graphs, residency->store(), hot_options(engine, options, config, unit));
  }
  auto ffn = std::make_unique<ClusterFfn>(machine, graphs, residency->store(), std::move(predictor), std::move(hot), std::move(options));
  residency->counts(*ffn);
  ClusterParts parts{nullptr, std::move(ffn)};
  if (clusters.eviction == "window") {
    parts.ffn = std::make_unique<WindowSteps>(std::move(parts.ffn), machine, residency->store(), clusters.dense_rows);
  }
  parts.residency = std::move(residency);
  return parts;
}

}  // namespace vitro
