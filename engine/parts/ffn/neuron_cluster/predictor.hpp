// Which neurons will fire, before their Gate rows are read: the Pred stage of PowerInfer-2, section 4.3. A predictor of low
// rank as PowerInfer's: scores = out relu(in x), or without the relu where it approximates the Gate matrix itself.
#pragma once
#include <optional>

#include "engine/machine/machine.hpp"
#include "engine/ops/contract.hpp"
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

struct PredictorOptions {
  std::vector<ComputeUnit*> units;
  std::uint32_t max_rows = 1;
  VariantId matmul{};
  // A neuron is predicted to fire when its score, or |act(score)| with an activation, is above that of its layer. One entry:
  // for all layers.
  std::vector<float> thresholds{0};
  std::optional<Activation> activation;
  bool relu = true;  // between the two matrices
};

class Predictor {
 public:
  // Requires: `weights` holds Role::predictor_in [rank, width] and Role::predictor_out [neurons, rank] for every layer whose FFN is
  // computed neuron by neuron, with as many matrices of the latter as there are experts; all layers have one shape. Leases its buffers;
  // throws ConfigError when they do not fit.
  Predictor(Machine& machine, const WeightStore& weights, const Residency& residency, PredictorOptions options);

  // For each group the neurons, from first[g] on, that are predicted for any of its rows; ascending.
  Task<std::vector<NamedNeurons>> predict(std::int16_t layer, const std::vector<FfnGroup>* groups, std::vector<std::uint32_t> first);

 private:
  KernelCall product(std::int16_t layer, const FfnGroup& group, Slice share, View weights, View x, View out) const;
  Chain hidden_calls(std::int16_t layer, const std::vector<FfnGroup>& groups, Slice share) const;
  Slice share_from(std::uint32_t first, std::size_t unit) const;
  Chain score_calls(std::int16_t layer, const std::vector<FfnGroup>& groups, const std::vector<std::uint32_t>& first,
                    std::size_t unit) const;
  View buffer(const Lease& lease, std::uint32_t first_row, std::uint32_t rows, std::uint32_t width) const;
  Task<void> run(ComputeUnit* unit, Chain chain, std::vector<Outcome>* outcomes);

  Machine& machine_;
  const WeightStore& weights_;
  const Residency& residency_;
  PredictorOptions options_;
  std::uint32_t rank_, neurons_;
  Lease hidden_, ones_, scores_;  // [max_rows, rank] twice, [max_rows, neurons]
};

}  // namespace vitro
