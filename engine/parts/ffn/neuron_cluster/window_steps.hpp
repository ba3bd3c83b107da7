// Tells a neuron cache when a token ends, so that the window of "LLM in a flash" slides (arXiv 2312.11514), and older uses count less.
#pragma once
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"

namespace vitro {

class WindowSteps final : public FfnBlock {
 public:
  // dense_rows: steps of as many rows compute every neuron (a prefill); they say nothing about which are in use, so the window
  // stands still. The store outlives this.
  WindowSteps(std::unique_ptr<FfnBlock> ffn, Machine& machine, NeuronStore& store, std::uint32_t dense_rows)
      : ffn_(std::move(ffn)), machine_(machine), store_(store), dense_rows_(dense_rows) {}

  Task<void> load() override { return ffn_->load(); }
  Task<void> between_requests() override { return ffn_->between_requests(); }
  Task<void> finish() override { return ffn_->finish(); }
  std::vector<std::string> notes() const override { return ffn_->notes(); }
  const MoeStats* experts() const override { return ffn_->experts(); }
  void prepare(std::int16_t layer, std::uint32_t rows, std::uint32_t sequences) override { ffn_->prepare(layer, rows, sequences); }
  std::vector<UnitChain> graphs(std::uint32_t rows, std::uint32_t sequences) override { return ffn_->graphs(rows, sequences); }
  Task<void> settle() override { return ffn_->settle(); }
  Task<void> run(std::int16_t layer, std::vector<FfnGroup> groups) override {
    std::size_t rows = 0;
    for (const FfnGroup& group : groups) rows += group.rows->size();
    const bool sparse = rows < dense_rows_ * groups.size();
    if (sparse && std::exchange(last_layer_, layer) >= layer) slide();
    return ffn_->run(layer, std::move(groups));
  }
  CacheStats stats() const override { return ffn_->stats(); }

 private:
  void slide() {
    for (const std::uint32_t block : store_.cache().next_token()) {
      machine_.clock.charge(PolicyWork::cache_update, 1);
      if (machine_.trace.enabled()) machine_.trace.decision("evict", store_.describe(block), "cold");
    }
  }

  std::unique_ptr<FfnBlock> ffn_;
  Machine& machine_;
  NeuronStore& store_;
  std::uint32_t dense_rows_;
  std::int16_t last_layer_ = -1;
};

}  // namespace vitro
