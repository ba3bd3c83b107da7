// EnergyCauses: what a simulated machine spends energy for: computing, or moving rows, weights and graphs about (NPUMoE 5.1 tells
// E_compute and E_comm apart). docs/design/power.md says what counts as what.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/kernel_call.hpp"
#include "hw_models/cumulative_sum.hpp"
#include "sim/power_meter.hpp"

namespace vitro::sim {

enum class Cause : std::uint8_t {
  compute,   // products, attention and all other arithmetic
  rows,      // rows that a unit puts elsewhere: gather, the weighted sum that scatters back, keys and values into the cache, copies
  switches,  // another graph is made current
};

// By the operator alone.
Cause cause_of(const KernelCall& call);

// Told when a call ends, so what a window cuts through counts where it ended. Times do not decrease.
class EnergyCauses {
 public:
  void drew(Cause cause, Picoseconds at, double joules) { units_[static_cast<std::size_t>(cause)].add(at, joules); }
  // Bytes that a call asked DRAM for.
  void moved(Picoseconds at, Bytes weights, Bytes others) {
    weights_.add(at, static_cast<double>(weights));
    others_.add(at, static_cast<double>(others));
  }

  using Shares = std::vector<std::pair<std::string, double>>;
  struct Split {
    Shares causes;         // "compute", "communication", "rest"; sums to the machine's energy
    Shares communication;  // "rows", "switches", "weights", "activations", "flash"; sums to that share
  };
  // `parts`: of the same window. DRAM's energy is shared out by the bytes that calls asked for. The rest is what the phone draws anyhow,
  // leakage of units, and system work: drivers and the policy.
  Split split(Picoseconds begin, Picoseconds end, const PowerMeter::Joules& parts) const;

 private:
  // Amounts of instants: within the last picosecond before, so that none is spread over the time since the one before.
  class Steps {
   public:
    void add(Picoseconds at, double amount) {
      sum_.add(std::max(last_, at - Picoseconds(1)), at, amount);
      last_ = at;
    }
    double sum(Picoseconds begin, Picoseconds end) const { return sum_.sum(begin, end); }

   private:
    hw::CumulativeSum sum_{hw::CumulativeSum::kForWindows};
    Picoseconds last_{0};
  };

  std::array<Steps, 3> units_;
  Steps weights_, others_;
};

}  // namespace vitro::sim
