#include "engine/parts/ffn/neuron_cluster/make_clusters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/parts/ffn/neuron_cluster/bundled_weights.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_ffn.hpp"
#include "engine/parts/ffn/neuron_cluster/window_steps.hpp"

namespace vitro {
namespace {

// Reads of one submission, where docs/design/sim-speed.md has what larger ones cost in simulated time: chosen to stay within 2 % of reads
// one by one. kFewBlocks: between two models that were measured, not searched for.
constexpr std::uint32_t kReadsTogether = 8, kGatesTogether = 2, kGroupsAtOnce = 4, kFewBlocks = 2048;

constexpr float kNoThreshold = -1;  // below any activation's magnitude: every neuron counts as active

PipelineKind pipeline_of(std::string_view name) {
  return name == "none" ? PipelineKind::none : name == "matrix" ? PipelineKind::matrix : PipelineKind::cluster;
}

// Reads are asynchronous (PowerInfer-2, sections 2.4 and 4.3), so nothing but the device holds them back unless an experiment does.
std::uint32_t io_depth(const ClusterConfig& clusters, const Storage& storage) {
  return clusters.io_depth > 0 ? clusters.io_depth : std::max(1u, storage.caps().queue_depth);
}

// Groups overlap, so that the device does not run dry between them: four at the least. A gate that is read alone decides what is read next,
// and waits for few others. A small FFN is over in a few reads: to wait for several of them would cost it more than an event does.
std::uint32_t io_together(const ClusterConfig& clusters, const NeuronStore& store, std::uint32_t depth) {
  if (store.options().page_faults) return 1;
  const bool small = store.layout().blocks() < kFewBlocks;
  const std::uint32_t chosen = small ? 1 : store.layout().first_part > 0 ? kGatesTogether : kReadsTogether;
  return std::max(1u, std::min(clusters.io_together > 0 ? clusters.io_together : chosen, depth / kGroupsAtOnce));
}

ComputeUnit* io_core(const Machine& machine, const UnitPlacement& placement, const ClusterConfig& clusters) {
  return clusters.io_core.empty() ? chain_units(machine, placement).front()
                                  : unit_named(machine, clusters.io_core, "engine.ffn.clusters.io_core");
}

bool predicts(const ClusterConfig& clusters, const ModelConfig& model) { return clusters.predictors && model.predictor_rank > 0; }

// The cores, or where there are none the units of static graphs.
std::vector<ComputeUnit*> sharing_units(const UnitPlacement& placement) {
  std::vector<ComputeUnit*> units;
  std::ranges::copy_if(placement.cores(), std::back_inserter(units), [](const auto* unit) { return !unit->caps().static_graphs; });
  return units.empty() ? placement.cores() : units;
}

// In the store's order. Requires: the lists are of this model (check_by_layer).
std::vector<double> by_ffn(const PlacementConfig::Split& split, const NeuronStore& store) {
  if (split.hot_by_layer.empty()) return {};
  std::vector<double> shares(store.ffns());
  const std::size_t experts = store.experts();
  for (auto layer = store.first_layer(); layer < static_cast<std::int16_t>(split.hot_by_layer.size()); ++layer) {
    const std::vector<double>& own = split.hot_by_layer[static_cast<std::size_t>(layer)];
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const auto number = static_cast<std::int16_t>(experts > 1 ? static_cast<int>(expert) : -1);
      shares[store.ffn_of(layer, number)] = own[own.size() == 1 ? 0 : expert];
    }
  }
  return shares;
}

// The largest share of an FFN that a step streams.
double most_streamed(const WeightsSetup& setup) {
  double most = 0;
  for (const PlacementConfig::Split& split : setup.placement.splits()) most = std::max(most, split.streamed);
  return most;
}

HotRegionOptions hot_options(const FfnSetup& setup, const ClusterConfig& clusters, const ClusterFfnOptions& ffn) {
  HotRegionOptions options;
  options.adapters = ffn.adapters;
  options.unit = setup.placement.accelerator();
  for (const PlacementConfig::Split& split : setup.placement.splits()) {
    options.splits.push_back({split.batch, split.hot, by_ffn(split, *setup.residency.neurons()), split.streamed});
  }
  options.cluster_neurons = clusters.hot_cluster;
  options.in_dram = clusters.hot_in_dram;
  options.max_rows = std::min(ffn.max_rows, ffn.dense_rows * std::max(setup.model.experts, 1u));  // a step beyond is dense
  options.io_core = ffn.pipeline.io_core;
  options.io_depth = ffn.pipeline.io_depth;
  options.asked = ffn.asked;
  options.decode_rows = setup.decode_rows;
  options.activation = setup.model.activation;
  options.shares_buffers = ffn.norm_eps.has_value();  // ClusterFfn has those of whole rows
  return options;
}

std::unique_ptr<Predictor> make_predictor(const FfnSetup& setup, const ClusterFfnOptions& ffn) {
  const ModelConfig& model = setup.model;
  PredictorOptions options{ffn.pipeline.units, ffn.max_rows, setup.matmul, model.predictor_thresholds, {}, true};
  options.relu = model.predictor_relu;
  const bool rectified = model.activation == Activation::relu || model.activation == Activation::relu_squared;
  if (!model.predictor_relu && !rectified) options.activation = model.activation;
  return std::make_unique<Predictor>(setup.machine, setup.weights, setup.residency, std::move(options));
}

// One large cluster (PowerInfer-2, section 4.1.1), as far as half of the staging buffer can hold it: the other half is being read.
std::uint32_t large_cluster(const NeuronStore& store, const ClusterConfig& clusters) {
  return std::max(clusters.hot_cluster, store.staging_blocks() / 2 * store.layout().per_block);
}

ClusterFfnOptions ffn_options(const FfnSetup& setup, const ClusterConfig& clusters, std::vector<ComputeUnit*> units) {
  NeuronStore& store = *setup.residency.neurons();
  const ModelConfig& model = setup.model;
  ClusterFfnOptions options;
  options.pipeline.units = std::move(units);
  options.pipeline.kind = pipeline_of(clusters.pipeline);
  options.pipeline.io_core = io_core(setup.machine, setup.placement, clusters)->caps().id;
  options.pipeline.io_depth = io_depth(clusters, setup.machine.storage);
  options.pipeline.io_together = io_together(clusters, store, options.pipeline.io_depth);
  options.pipeline.unit_depth = 2;
  options.pipeline.accesses = store.accesses();
  options.cluster_neurons = clusters.neurons;
  options.dense_rows = clusters.dense_rows;
  options.experts_used = std::max(model.experts_used, 1u);
  options.max_rows = setup.max_rows * options.experts_used;
  options.asked = {setup.matmul, setup.prefill_matmul, setup.accelerator_matmul};
  options.activation = model.activation;
  if (model.sub_norms) options.norm_eps = model.norm_eps;
  if (!model.firing_thresholds.empty()) options.thresholds = model.firing_thresholds;
  if (clusters.threshold) options.thresholds = {*clusters.threshold};
  options.measure = clusters.measure;
  const bool cores = setup.placement.accelerator() == nullptr && !options.pipeline.units.front()->caps().static_graphs;
  if (NeuronAdapters::wanted(setup.adapters)) {
    options.adapters = std::make_shared<NeuronAdapters>(setup.machine, *setup.adapters, setup.matmul, options.max_rows);
  }
  options.dense_neurons = cores ? options.cluster_neurons : large_cluster(store, clusters);
  return options;
}

}  // namespace

std::unique_ptr<Residency> make_bundles(const WeightsSetup& setup, const ClusterConfig& clusters, NeuronsIn in) {
  const NeuronCacheConfig& config = setup.config.neurons;
  NeuronStoreOptions store;
  store.eviction = in == NeuronsIn::pages ? "lru" : in == NeuronsIn::stream ? "none" : config.eviction;
  if (in == NeuronsIn::cache) store.admission = config.admission;
  store.window = config.window;
  store.two_phases = config.two_phases;
  store.holds_all = in == NeuronsIn::dram;
  if (!store.holds_all) store.ffn_in_dram = config.cache ? setup.ffn_in_dram : 0.0;
  store.staging = config.staging;
  if (in == NeuronsIn::cache) store.streamed = most_streamed(setup);
  store.whole_waves = pipeline_of(clusters.pipeline) == PipelineKind::none;
  store.keep_free = setup.keep_free;
  store.page_faults = in == NeuronsIn::pages;
  store.keep_accesses = config.report_bound;
  const UnitId reader = io_core(setup.machine, setup.placement, clusters)->caps().id;
  std::optional<NeuronLookAheadOptions> ahead;
  if (setup.config.experts.neurons_ahead > 0) {
    ahead = {setup.config.experts.neurons_ahead, setup.config.experts.ahead, setup.model.experts_used, reader,
             io_depth(clusters, setup.machine.storage)};
  }
  return std::make_unique<BundledWeights>(setup.machine, setup.weights, std::move(store), reader, predicts(clusters, setup.model),
                                          std::move(ahead));
}

ClusterConfig every_neuron(ClusterConfig clusters) {
  clusters.predictors = clusters.measure = false;
  clusters.threshold = kNoThreshold;
  return clusters;
}

std::shared_ptr<FfnBlock> make_neurons(const FfnSetup& setup, const ClusterConfig& clusters, std::vector<ComputeUnit*> units,
                                       std::uint32_t max_rows, GraphCache& graphs) {
  ClusterFfnOptions options = ffn_options(setup, every_neuron(clusters), std::move(units));
  options.dense_rows = 1;
  options.dense_neurons = large_cluster(*setup.residency.neurons(), clusters);  // whether a core stands for a unit or not
  options.max_rows = max_rows;
  return std::make_shared<ClusterFfn>(setup.machine, graphs, *setup.residency.neurons(), nullptr, nullptr, std::move(options));
}

Ffn make_clusters(const FfnSetup& setup, ClusterConfig clusters) {
  NeuronStore& store = *setup.residency.neurons();
  const ModelConfig& model = setup.model;
  std::vector<ComputeUnit*> units = sharing_units(setup.placement);
  // Which neurons fire would be another graph each time.
  if (units.front()->caps().static_graphs) clusters = every_neuron(std::move(clusters));
  ClusterFfnOptions options = ffn_options(setup, clusters, std::move(units));
  ComputeUnit* const accelerator = setup.placement.accelerator();
  // An accelerator beside the cores has its share of a step that names neurons, and none of a dense one.
  if (clusters.threshold == kNoThreshold && accelerator == nullptr) options.dense_rows = 1;
  options.look_ahead = setup.residency.neuron_look_ahead();
  std::unique_ptr<Predictor> predictor;
  if (predicts(clusters, model)) predictor = make_predictor(setup, options);
  // Without predictors, or to measure them, every block is computed for every token: to keep them all would keep none until its next turn.
  options.pipeline.keep_silent = predictor != nullptr && clusters.keep_silent && !clusters.measure;
  std::unique_ptr<HotRegion> hot;
  if (accelerator != nullptr) {
    if (setup.placement.prefill_on_accelerator()) {
      options.pipeline.dense_units = {accelerator};
      options.dense_on_accelerator = true;
    }
    hot = std::make_unique<HotRegion>(setup.machine, setup.graphs, store, hot_options(setup, clusters, options));
  }
  const std::uint32_t dense_rows = options.dense_rows;
  auto block = std::make_unique<ClusterFfn>(setup.machine, setup.graphs, store, std::move(predictor), std::move(hot), std::move(options));
  return {std::make_unique<WindowSteps>(std::move(block), setup.machine, store, dense_rows), nullptr};
}

}  // namespace vitro
