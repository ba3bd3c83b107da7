// What the parts of a FaultyMachine share: the plan, how far operations have been counted, and what fired.
#pragma once
#include <algorithm>
#include <coroutine>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/faults/fault_plan.hpp"
#include "engine/machine/executor.hpp"

namespace vitro {

// What a run did, as the machine saw it.
struct FaultTally {
  FaultTargets operations{};                      // submitted
  std::array<std::uint64_t, kFaultKinds> fired{};  // operations that a fault of the kind hit
  std::uint64_t started = 0, ended = 0;           // reads, writes, launches and loads: equal when all are joined
};

// An operation by its number among those of its target, from 0 on, and what strikes it.
struct Struck {
  std::uint64_t number = 0;
  std::vector<const Fault*> faults;
};

// Policy thread only.
class FaultState {
 public:
  explicit FaultState(FaultPlan plan) : plan(std::move(plan)), reached_(this->plan.faults.size()) {}

  // Counts an operation.
  Struck next(FaultTarget target, const std::string& unit = "") {
    Struck struck{tally.operations[static_cast<std::size_t>(target)]++, {}};
    if (healed) return struck;
    for (std::size_t i = 0; i < plan.faults.size(); ++i) {
      const Fault& fault = plan.faults[i];
      const bool here = target_of(fault.kind) == target && (fault.unit.empty() || fault.unit == unit);
      if (!here || struck.number < fault.at || struck.number - fault.at >= fault.count) continue;
      struck.faults.push_back(&fault);
      reached_[i] = true;
    }
    return struck;
  }
  // Faults of the plan whose operations never came.
  std::size_t unreached() const { return static_cast<std::size_t>(std::count(reached_.begin(), reached_.end(), false)); }
  void fired(FaultKind kind) { ++tally.fired[static_cast<std::size_t>(kind)]; }

  const FaultPlan plan;
  FaultTally tally;
  bool healed = false;

 private:
  std::vector<bool> reached_;  // by fault of the plan
};

// Always suspends, as a device does, even when it waits for nothing.
struct FaultDelay {
  Executor& executor;
  Picoseconds delay;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) const { executor.post_at(executor.now() + delay, handle); }
  void await_resume() const {}
};

}  // namespace vitro
