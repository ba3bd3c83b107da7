// The neuron-cluster FFN (PowerInfer-2, sections 3 to 4): predicts, plans clusters, runs them as a pipeline, and adds their
// partial sums in neuron order.
#pragma once
#include <map>
#include <optional>

#include "engine/ops/contract.hpp"
#include "engine/ops/product_contract.hpp"
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_pipeline.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_plan.hpp"
#include "engine/parts/ffn/neuron_cluster/hot_region.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_adapters.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_look_ahead.hpp"
#include "engine/parts/ffn/neuron_cluster/predictor.hpp"

namespace vitro {

struct ClusterFfnOptions {
  ClusterPipeline::Options pipeline;
  std::uint32_t cluster_neurons = 64;
  // From this many rows on every neuron is computed: nearly all fire for some row (section 7.2.2: 99.99 % at 128).
  std::uint32_t dense_rows = 16;
  std::uint32_t dense_neurons = 64;  // of a cluster of such a step
  std::uint32_t max_rows = 1;        // over all groups of a step
  std::uint32_t experts_used = 1;    // by each row
  Bytes partials = 16 * MiB;         // most that partial sums may take
  AskedContracts asked;
  bool dense_on_accelerator = false;  // an accelerator computes steps with every neuron
  Activation activation = Activation::relu;
  std::vector<float> thresholds{0};  // a neuron is active when |act(gate)| is above that of its layer; one entry: for all
  std::shared_ptr<const NeuronAdapters> adapters = {};  // null: none adapts an FFN
  NeuronLookAhead* look_ahead = nullptr;                // null: experts are not foreseen
  std::optional<float> norm_eps = {};                   // an RMS norm over all neurons comes before Down, whose rows hold its weights
  bool measure = false;                                 // every gate is computed, and those are dropped that the predictor left out
};

// What became of the predictor's guesses, in cold neurons of a step (those that fire for any of its rows).
struct PredictionStats {
  std::uint64_t predicted = 0, predicted_firing = 0;
  std::uint64_t firing = 0;  // predicted or not; only known when measured
};

class ClusterFfn final : public FfnBlock {
 public:
  // Leases its buffers. Throws ConfigError when the budget is too small. predictor: null, every gate is computed.
  // hot: null, the units of the pipeline compute everything.
  ClusterFfn(Machine& machine, GraphCache& graphs, NeuronStore& store, std::unique_ptr<Predictor> predictor, std::unique_ptr<HotRegion> hot,
             ClusterFfnOptions options);

  void prepare(std::int16_t layer, std::uint32_t rows, std::uint32_t sequences) override;
  std::vector<UnitChain> graphs(std::uint32_t rows, std::uint32_t sequences) override;
  Task<void> settle() override;
  Task<void> run(std::int16_t layer, std::vector<FfnGroup> groups) override;
  CacheStats stats() const override {
    const PipelineStats pipeline = pipeline_.stats();
    return {pipeline.hits, pipeline.misses, predictions_.predicted, predictions_.predicted_firing, predictions_.firing};
  }
  PipelineStats pipeline_stats() const { return pipeline_.stats(); }
  const PredictionStats& predictions() const { return predictions_; }

 private:
  struct Step {
    std::int16_t layer = -1;
    std::vector<FfnGroup> groups;
    std::vector<Cluster> clusters;
    std::vector<std::uint32_t> first_row;  // of each group in the wide buffers
    std::vector<std::uint32_t> inputs;     // by group: KernelCall::activations of Gate and Up
    std::vector<IndexList> predicted;      // by group, when measured
    std::uint32_t partials = 0;            // most of each group
    std::vector<View> outputs;             // of the groups, where what they sum up is not the output yet
    std::vector<std::uint32_t> hot;        // neurons of each group that the hot region computes, from 0 on
    std::uint32_t sequences = 0;           // that its rows belong to
    bool decodes = false;                  // one row of each
    bool every_neuron = false;
  };
  bool dense(std::uint32_t rows, std::size_t groups) const { return rows >= options_.dense_rows * groups; }
  void plan(Step& step, const std::vector<NamedNeurons>& neurons, std::uint32_t rows);
  void read_ahead(std::int16_t layer, std::uint32_t rows);
  static void meet(Step& step, std::vector<FfnGroup> groups);
  Task<std::vector<NamedNeurons>> cold_neurons(Step* step);
  IndexList computed(const Step& step, const Cluster& cluster) const;
  void count_predictions(const Step& step);
  void report_cold(const Step& step);
  void choose_hot(Step& step);
  Task<void> run_cold(Step* step, std::uint32_t rows, bool planned);
  std::uint32_t most_partials(std::uint32_t rows) const;
  void add_adapters(const Step& step, const Cluster& cluster, Role role, const IndexList& neurons, Chain& chain) const;
  VariantId contract(const Step& step) const;
  void gate_calls(const Step& step, const Cluster& cluster, Chain& chain) const;
  void rest_calls(const Step& step, const Cluster& cluster, Chain& chain) const;
  KernelCall& add_call(const Step& step, const Cluster& cluster, Op op, Chain& chain) const;
  void operands(KernelCall& call, NeuronStore::Matrix matrix, View x) const;
  View wide(const Lease& lease, const Step& step, const Cluster& cluster) const;
  View partial(const Step& step, std::uint32_t group, std::uint32_t index) const;
  IndexList row_offsets(const Step& step, const Cluster& cluster) const;
  IndexList row_offsets(const Step& step, const Cluster& cluster, const IndexList& neurons) const;
  Task<void> reduce(const Step* step);
  NeuronAdapters::Rows rows_of(const Step& step, std::uint32_t group) const;
  Task<void> adapt_inputs(const Step* step);
  Task<void> adapt_hidden(const Step* step);
  Task<void> run_on_first(Chain chain);
  void lease_for_norm();
  void sum_apart(Step& step) const;
  Task<void> clear_hidden(const Step* step);
  Task<void> divide_by_norm(const Step* step);

  Machine& machine_;
  GraphCache& graphs_;
  NeuronStore& store_;
  std::unique_ptr<Predictor> predictor_;
  std::unique_ptr<HotRegion> hot_;
  ClusterFfnOptions options_;
  ClusterPipeline pipeline_;
  IndexList all_neurons_;
  std::map<std::int16_t, std::unique_ptr<Step>> ahead_;  // layers whose neurons are being read
  Lease gate_, up_, hidden_, partials_;                  // [max_rows, neurons] x 3, partial sums
  // Of a norm: [neurons] zeros, [width] ones, [max_rows] 1 / norm, [max_rows, width] sums before they are divided.
  Lease silent_, ones_, scales_, sums_;
  PredictionStats predictions_;
  bool failed_ = false;  // a step that has not ended well
};

}  // namespace vitro
