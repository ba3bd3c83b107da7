// Function: what stands behind a ComputeUnit and gives a call its effect and its outcome.
#pragma once
#include <string>
#include <vector>

#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Computes (kernels), replays (a recorded trace) or draws (an activation profile). Both machines own one; sim calls it
// once per call, at the simulated completion. A replayed or drawn outcome is a pure function of seed, layer, sequence
// and position, so every policy and both machines face the same workload.
class Function {
 public:
  virtual ~Function() = default;
  // Thread-safe for calls that do not overlap in their outputs: host workers share one Function.
  virtual Outcome execute(const KernelCall& call) = 0;
  // What a reader of the result has to know of its answers.
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace vitro
