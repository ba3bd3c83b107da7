// What a framework without offloading does when the weights do not fit: part of the FFNs stays, the rest is read layer by layer,
// each matrix in large sequential requests right before it is computed, into the same buffer every time. Nothing overlaps.
#pragma once
#include <set>

#include "engine/machine/signal.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

struct StreamOptions {
  std::optional<double> ffn_in_dram;  // share of FFN bytes that stays; else what the budget leaves
  Bytes keep_free = 0;                // of the budget, for what is leased later (KV, an accelerator's copy)
  UnitId reader{};                    // the core that issues reads
  bool experts_at_once = false;       // a buffer for each expert of a layer: one item may need several of them
};

// Units share the buffers: the first that needs a matrix reads all of it, once everyone has computed with what was there before. Chains
// end with their layer: on a unit with static graphs one graph then serves all layers. Stats count matrices.
class StreamResidency final : public DenseResidency {
 public:
  StreamResidency(Machine& machine, const WeightStore& weights, StreamOptions options)
      : DenseResidency(machine, weights), machine_(machine), weights_(weights), options_(options), moved_(machine.executor) {}

  // The first FFN matrices of the file stay, as many as there is room for.
  Task<void> load() override;
  View view(const Weight& weight, std::uint32_t expert) const override;
  bool stays() const override { return false; }
  // Requires: no item needs two matrices of one buffer.
  void plan(const UnitQueues& phase) override;
  bool ready(std::size_t unit, std::size_t item) const override;
  Task<void> fetch(std::size_t unit, std::size_t item, UnitId issuer) override;
  void done(std::size_t unit, std::size_t item) override;
  void abandon() override;
  CacheStats stats() const override { return stats_; }

 private:
  struct Matrix {
    const Weight* weight = nullptr;
    std::uint32_t expert = 0;
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  struct Buffer {
    Lease memory;  // whole pages around the largest matrix of a role
    Matrix holds;
    std::optional<std::uint32_t> reader;  // the step of the phase that read it; none: it holds what a phase before left
    std::vector<std::uint32_t> users;     // steps of the phase that compute with it
  };
  // What one item has to do before it may run. Items of a phase are numbered in plan order, and wait for earlier ones alone.
  struct Step {
    std::size_t unit = 0;
    std::vector<Matrix> reads;
    std::vector<std::uint32_t> after_fetch;  // another unit reads what this one computes with
    std::vector<std::uint32_t> after_done;   // another unit still computes with what this one reads over
    bool begins_layer = false, fetched = false, finished = false;
  };
  bool is_kept(const Weight& weight) const override;
  const Buffer& buffer_of(const Weight& weight, std::uint32_t expert) const;
  std::optional<Matrix> lacking(const WorkItem& item) const;  // the first that is not in its buffer
  void plan_item(const WorkItem& item, std::uint32_t number);
  Step& step(std::size_t unit, std::size_t item) { return steps_[number_.at(unit).at(item)]; }

  Machine& machine_;
  const WeightStore& weights_;
  StreamOptions options_;
  std::set<const Weight*> streamed_;                // looked up, never iterated
  std::map<Role, std::vector<Buffer>> buffers_;     // by role one, or one for each expert
  std::vector<Step> steps_;                         // of the phase, in plan order
  std::vector<std::vector<std::uint32_t>> number_;  // [unit][item] to plan order
  Signal moved_;
  bool abandoned_ = false;  // the phase failed: buffers may not hold what they were to
  CacheStats stats_;
};

}  // namespace vitro
