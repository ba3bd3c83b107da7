// The part of a processor that kernels share with the system: drivers and the policy take it when they need it.
#pragma once
#include <algorithm>

#include "hw_models/compute.hpp"
#include "sim/activity_meter.hpp"

namespace vitro::sim {

// System work is served in order and at once; a kernel in progress ends that much later, and one that has not begun
// waits, as a scheduler that favours the thread that just woke up would have it.
class Core {
 public:
  Core(hw::ComputeModel& model, Meter& meter, std::size_t processor) : model_(model), meter_(meter), processor_(processor) {}

  hw::ComputeModel& model() { return model_; }
  // Returns when the work is done. Requires: it is one of UnitKind::core.
  Picoseconds system_work(Picoseconds from, Picoseconds duration) {
    const Picoseconds begin = std::max(from, system_free_);
    system_free_ = begin + duration;
    meter_.system_work(processor_, begin, system_free_);
    model_.preempt(duration);
    return system_free_;
  }
  Picoseconds system_free() const { return system_free_; }
  std::size_t processor() const { return processor_; }  // its number in the Soc

 private:
  hw::ComputeModel& model_;
  Meter& meter_;
  std::size_t processor_;
  Picoseconds system_free_{0};
};

}  // namespace vitro::sim
