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

  // Where the pipeline is to note what it accesses, so that there will be a bound.
  std::vector<std::uint32_t>* keep_accesses();
  void decode_begins() override;
  std::optional<double> hit_rate_bound() const override;

 private:
  NeuronStore store_;
  UnitId io_core_;
  const ClusterFfn* ffn_ = nullptr;
  bool keeps_accesses_ = false;
  std::vector<std::uint32_t> accesses_, resident_;  // since decode began; what was in DRAM then
};

}  // namespace vitro
