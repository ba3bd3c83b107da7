// How many rows of a chunk are expected to find no room in an expert's slice (NPUMoE 4.1: d_e = max(0, n_e - C)), from what calibration
// knows of the expert.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace vitro {

// Rows beyond a capacity, for every capacity of 0 to `rows`. Two estimates, of which the larger one counts: rows that choose independently
// of each other (binomial), and the chunks of the calibration as they were. The first knows no bursts, the second no other texts.
class OverflowCurve {
 public:
  // rows: of a chunk. probability: that a row chooses the expert, 0 to 1. counts: rows that chose it, by chunk of the calibration, none of
  // them above `rows`; empty: nothing is known but the probability.
  OverflowCurve(std::uint32_t rows, double probability, std::span<const std::uint32_t> counts = {});

  // Expected rows beyond `capacity`; 0 from `rows` on.
  double beyond(std::uint32_t capacity) const { return capacity < beyond_.size() ? beyond_[capacity] : 0.0; }
  double expected() const { return expected_; }  // rows

 private:
  double expected_;
  std::vector<double> beyond_;  // by capacity
};

}  // namespace vitro
