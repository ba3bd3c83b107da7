// What a framework without offloading does when the weights do not fit: part of the FFNs stays, the rest is read layer by layer,
// each matrix in large sequential requests right before it is computed, into the same buffer every time. Nothing overlaps.
#pragma once
#include <set>

#include "engine/parts/weights/residency.hpp"

namespace vitro {

struct StreamOptions {
  std::optional<double> ffn_in_dram;  // share of FFN bytes that stays; else what the budget leaves
  Bytes keep_free = 0;                // of the budget, for what is leased later (KV)
  UnitId reader{};                    // the core that issues reads
};

// For one unit: its items run one after the other, so a buffer is free when the next item needs it. Chains end with their layer:
// on a unit with static graphs one graph then serves all layers. Stats count matrices.
class StreamResidency final : public DenseResidency {
 public:
  StreamResidency(Machine& machine, const WeightStore& weights, StreamOptions options)
      : DenseResidency(machine, weights), machine_(machine), weights_(weights), options_(options) {}

  // The first FFN matrices of the file stay, as many as there is room for.
  Task<void> load() override;
  View view(const Weight& weight, std::uint32_t expert) const override;
  bool stays() const override { return false; }
  void plan(const UnitQueues& phase) override;  // Requires: one unit
  bool ready(std::size_t, std::size_t item) const override { return reads_.at(item).empty() && !begins_layer_.at(item); }
  Task<void> fetch(std::size_t unit, std::size_t item, UnitId issuer) override;
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
  };
  bool is_kept(const Weight& weight) const override;

  Machine& machine_;
  const WeightStore& weights_;
  StreamOptions options_;
  std::set<const Weight*> streamed_;  // looked up, never iterated
  std::map<Role, Buffer> buffers_;
  std::vector<std::vector<Matrix>> reads_;  // of the phase, by item
  std::vector<bool> begins_layer_;
  CacheStats stats_;
};

}  // namespace vitro
