// The neuron-cluster FFN (PowerInfer-2, sections 3 to 4): predicts, plans clusters, runs them as a pipeline, and adds their
// partial sums in neuron order.
#pragma once
#include "engine/decode/ffn_block.hpp"
#include "engine/ffn/cluster_pipeline.hpp"
#include "engine/ffn/cluster_plan.hpp"
#include "engine/ffn/predictor.hpp"
#include "engine/kernels/contract.hpp"

namespace vitro {

struct ClusterFfnOptions {
  ClusterPipeline::Options pipeline;
  std::uint32_t cluster_neurons = 64;
  // From this many rows on every neuron is computed: nearly all fire for some row (section 7.2.2: 99.99 % at 128).
  std::uint32_t dense_rows = 16;
  std::uint32_t max_rows = 1;  // over all groups of a step
  Bytes partials = 16 * MiB;   // most that partial sums may take
  VariantId matmul{};
  Activation activation = Activation::relu;
  float threshold = 0;  // a neuron is active when |act(gate)| is above it
};

class ClusterFfn final : public FfnBlock {
 public:
  // Leases its buffers. Throws ConfigError when the budget is too small. predictor: null, every gate is computed.
  ClusterFfn(Machine& machine, NeuronStore& store, std::unique_ptr<Predictor> predictor, ClusterFfnOptions options);

  Task<void> run(std::int16_t layer, std::vector<FfnGroup> groups) override;
  std::uint64_t seam_calls() const override {
    return pipeline_.stats().seam_calls + seam_calls_ + (predictor_ ? predictor_->seam_calls() : 0);
  }
  const PipelineStats& stats() const { return pipeline_.stats(); }

 private:
  struct Step {
    std::int16_t layer = -1;
    std::vector<FfnGroup> groups;
    std::vector<Cluster> clusters;
    std::vector<std::uint32_t> first_row;  // of each group in the wide buffers
    std::vector<Bytes> partials;           // of each group: where they begin
    std::vector<std::uint32_t> partial_count;
    bool every_neuron = false;
  };
  Chain gate_calls(const Step& step, const Cluster& cluster) const;
  Chain rest_calls(const Step& step, const Cluster& cluster) const;
  KernelCall call(const Step& step, const Cluster& cluster, Op op) const;
  View wide(const Lease& lease, const Step& step, const Cluster& cluster) const;
  View partial(const Step& step, std::uint32_t group, std::uint32_t first, std::uint32_t count) const;
  IndexList places(const Step& step, const Cluster& cluster, const IndexList& neurons) const;
  void place_partials(Step& step) const;
  Task<void> reduce(const Step* step);

  Machine& machine_;
  NeuronStore& store_;
  std::unique_ptr<Predictor> predictor_;
  ClusterFfnOptions options_;
  ClusterPipeline pipeline_;
  IndexList all_neurons_;
  Lease gate_, up_, hidden_, partials_;  // [max_rows, neurons] x 3, partial sums
  std::uint64_t seam_calls_ = 0;
};

}  // namespace vitro
