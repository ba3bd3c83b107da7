// The weights of a model whose FFNs are neuron clusters: everything else in DRAM (the fixed region of PowerInfer-2, section
// 4.2), neurons in the store.
#pragma once
#include "engine/decode/residency.hpp"
#include "engine/ffn/cluster_ffn.hpp"

namespace vitro {

class ClusterResidency final : public DenseResidency {
 public:
  ClusterResidency(Machine& machine, const WeightStore& weights, NeuronStoreOptions options, UnitId io_core, bool predictors)
      : DenseResidency(machine, weights, predictors), store_(machine, weights, std::move(options)), io_core_(io_core) {}

  NeuronStore& store() { return store_; }
  void counts(const ClusterFfn& ffn) { ffn_ = &ffn; }  // whose hits and misses stats() gives

  Task<void> load() override {
    co_await DenseResidency::load();
    co_await store_.load(io_core_);
  }
  Stats stats() const override {
    const PredictionStats& p = ffn_->predictions();
    return {ffn_->stats().hits, ffn_->stats().misses, p.predicted, p.predicted_firing, p.firing};
  }

 private:
  NeuronStore store_;
  UnitId io_core_;
  const ClusterFfn* ffn_ = nullptr;
};

}  // namespace vitro
