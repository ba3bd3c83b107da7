// The part of a processor that kernels share with the system: drivers and the policy take it when they need it.
#pragma once
#include <algorithm>
#include <string>

#include "engine/machine/trace.hpp"
#include "hw_models/compute.hpp"
#include "sim/accounting.hpp"

namespace vitro::sim {

// System work is served in order and at once; a kernel in progress ends that much later, and one that has not begun
// waits, as a scheduler that favours the thread that just woke up would have it.
class Core {
 public:
  Core(hw::ComputeModel& model, Accounting& accounting, std::size_t processor, TraceSink& trace, std::string name)
      : model_(model), accounting_(accounting), processor_(processor), trace_(trace), name_(std::move(name)) {}

  hw::ComputeModel& model() { return model_; }
  // Returns when the work is done. Requires: it is one of UnitKind::core.
  Picoseconds system_work(SystemWork kind, Picoseconds from, Picoseconds duration) {
    const Picoseconds begin = std::max(from, system_free_);
    system_free_ = begin + duration;
    if (trace_.enabled() && duration.count() > 0) draw(kind, begin);
    accounting_.system_works(processor_, kind, begin, duration);
    model_.preempt(duration);
    return system_free_;
  }
  Picoseconds system_free() const { return system_free_; }
  std::size_t processor() const { return processor_; }  // its number in the Soc
  // Writes the span that further work might have made longer.
  void end_trace() {
    static constexpr std::string_view kNames[] = {"issue I/O", "policy", "take result"};
    if (drawn_end_ > drawn_begin_) {
      trace_.span(trace_.track("units", name_), drawn_begin_, drawn_end_, kNames[static_cast<std::size_t>(drawn_)]);
    }
    drawn_begin_ = drawn_end_;
  }

 private:
  // Work of one kind without a pause is one span: thousands of commands are issued in a row.
  void draw(SystemWork kind, Picoseconds begin) {
    if (kind != drawn_ || begin != drawn_end_) {
      end_trace();
      drawn_ = kind;
      drawn_begin_ = begin;
    }
    drawn_end_ = system_free_;
  }

  hw::ComputeModel& model_;
  Accounting& accounting_;
  std::size_t processor_;
  Picoseconds system_free_{0};
  TraceSink& trace_;
  std::string name_;
  SystemWork drawn_{};
  Picoseconds drawn_begin_{0}, drawn_end_{0};
};

}  // namespace vitro::sim
