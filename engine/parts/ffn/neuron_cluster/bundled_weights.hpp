// The weights of a model whose FFN neurons are bundles behind a cache; all else is in DRAM (the fixed region of PowerInfer-2, section
// 4.2).
#pragma once
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

class BundledWeights final : public DenseResidency {
 public:
  // `predictors`: those of the model are kept, too.
  BundledWeights(Machine& machine, const WeightStore& weights, NeuronStoreOptions options, UnitId io_core, bool predictors)
      : DenseResidency(machine, weights, predictors), store_(machine, weights, std::move(options)), io_core_(io_core) {}

  NeuronStore* neurons() override { return &store_; }
  Task<void> load() override {
    co_await DenseResidency::load();
    co_await store_.load(io_core_);
  }
  void decode_begins() override;
  std::optional<double> hit_rate_bound() const override;

 private:
  mutable NeuronStore store_;
  UnitId io_core_;
  std::vector<std::uint32_t> resident_;  // when decoding began
};

}  // namespace vitro
