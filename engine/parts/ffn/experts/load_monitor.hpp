// What a router chose in a run beside what calibration expected: how well the hot experts were foreseen (Overlap@K, NPUMoE 5.1 and 5.8),
// and what to expect from then on.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/parts/ffn/experts/expert_tiers.hpp"

namespace vitro {

// Share of the k experts with the largest share in one list that are among the k largest of the other; of equals the lower id.
// Requires: lists of one length, 0 < k <= that length.
double overlap_at(std::size_t k, const std::vector<double>& one, const std::vector<double>& other);

class LoadMonitor {
 public:
  // expected: of each layer, sums to 1. chunk: rows of a full step of prefill.
  LoadMonitor(ExpertLoads expected, std::uint32_t chunk);

  // Rows of one step that chose each expert of the layer. `rows`: of the step.
  void observe(std::size_t layer, const std::vector<std::uint32_t>& chose, std::uint32_t rows);
  // The median over layers of overlap_at(), of what was expected and what was observed since then; none: nothing was.
  std::optional<double> overlap(std::size_t k) const;

  const ExpertLoads& expected() const { return expected_; }
  // Shares of what was observed; a layer without observations is all zeros.
  ExpertLoads observed() const;
  // halfway() between the two.
  ExpertLoads loads() const;
  // Full steps, of which every layer has as many; the last kMostChunks of them. Empty: there is none.
  ChunkCounts chunks() const;
  // From now on these (loads() unless said) are what is expected, and nothing has been observed. Requires: as many layers and experts.
  void follow(ExpertLoads expected);
  void follow() { follow(loads()); }
  // Nothing has been observed; what is expected stays.
  void forget();

  static constexpr std::size_t kMostChunks = 64;

 private:
  ExpertLoads expected_;
  std::vector<std::vector<double>> observed_;  // pairs, by layer and expert
  ChunkCounts chunks_;
  std::uint32_t chunk_;
};

}  // namespace vitro
