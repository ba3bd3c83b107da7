// The part of a processor that kernels share with the system: drivers and the policy take it when they need it.
#pragma once
#include <algorithm>

#include "engine/machine/activity.hpp"
#include "hw_models/compute.hpp"

namespace vitro::sim {

// System work is served in order and at once; a kernel in progress ends that much later, and one that has not begun
// waits, as a scheduler that favours the thread that just woke up would have it.
class Core {
 public:
  explicit Core(hw::ComputeModel& model) : model_(model) {}

  hw::ComputeModel& model() { return model_; }
  // Returns when the work is done. Requires: the core runs system work (clock > 0).
  Picoseconds system_work(Picoseconds from, Picoseconds duration) {
    const Picoseconds begin = std::max(from, system_free_);
    system_free_ = begin + duration;
    system_busy_.add(begin, system_free_);
    model_.preempt(duration);
    return system_free_;
  }
  Picoseconds system_free() const { return system_free_; }
  const IntervalSet& system_busy() const { return system_busy_; }

 private:
  hw::ComputeModel& model_;
  Picoseconds system_free_{0};
  IntervalSet system_busy_;
};

}  // namespace vitro::sim
