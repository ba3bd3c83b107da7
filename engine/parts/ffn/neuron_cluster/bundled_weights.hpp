// The weights of a model whose FFN neurons are bundles behind a cache; all else is in DRAM (the fixed region of PowerInfer-2, section
// 4.2).
#pragma once
#include <optional>

#include "engine/parts/ffn/neuron_cluster/neuron_look_ahead.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

class BundledWeights final : public DenseResidency {
 public:
  // `predictors`: those of the model are kept, too. `ahead`: none, no neuron is read before its router has chosen.
  BundledWeights(Machine& machine, const WeightStore& weights, NeuronStoreOptions options, UnitId io_core, bool predictors,
                 std::optional<NeuronLookAheadOptions> ahead = std::nullopt)
      : DenseResidency(machine, weights, predictors), store_(machine, weights, std::move(options)), io_core_(io_core) {
    if (ahead) look_ahead_.emplace(machine, store_, std::move(*ahead));
  }

  NeuronStore* neurons() override { return &store_; }
  NeuronLookAhead* neuron_look_ahead() override { return look_ahead_ ? &*look_ahead_ : nullptr; }
  const NeuronsAheadStats* neurons_ahead_stats() const override { return look_ahead_ ? &look_ahead_->stats() : nullptr; }
  bool looks_ahead(std::size_t rows) const override { return look_ahead_ && look_ahead_->looks_ahead(rows); }
  void chose(std::int16_t layer, const std::vector<ExpertChoice>& choices) override {
    if (look_ahead_) look_ahead_->chose(layer, choices);
  }
  void foresee(std::int16_t layer, const std::vector<ExpertChoice>& choices) override { look_ahead_->foresee(layer, choices); }
  Task<void> load() override {
    co_await DenseResidency::load();
    co_await store_.load(io_core_);
  }
  void decode_begins() override;
  std::optional<double> hit_rate_bound() const override;

 private:
  mutable NeuronStore store_;
  UnitId io_core_;
  std::optional<NeuronLookAhead> look_ahead_;
  std::vector<std::uint32_t> resident_;  // when decoding began
};

}  // namespace vitro
