// What the parts of a FaultyMachine share: the plan, how far operations have been counted, and what fired.
#pragma once
#include <coroutine>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/executor.hpp"
#include "engine/testing/fault_plan.hpp"

namespace vitro {

// What a run did, as the machine saw it.
struct FaultTally {
  FaultTargets operations{};                      // submitted
  std::array<std::uint64_t, kFaultKinds> fired{};  // operations that a fault of the kind hit
  std::uint64_t started = 0, ended = 0;           // reads, writes, launches and loads: equal when all are joined
};

// Policy thread only.
class FaultState {
 public:
  explicit FaultState(FaultPlan plan) : plan(std::move(plan)) {}

  // Counts an operation, and tells which faults hit it.
  std::vector<const Fault*> next(FaultTarget target, const std::string& unit = "") {
    const std::uint64_t n = tally.operations[static_cast<std::size_t>(target)]++;
    std::vector<const Fault*> hits;
    if (healed) return hits;
    for (const Fault& fault : plan.faults) {
      const bool here = target_of(fault.kind) == target && (fault.unit.empty() || fault.unit == unit);
      if (here && n >= fault.at && n - fault.at < fault.count) hits.push_back(&fault);
    }
    return hits;
  }
  void fired(FaultKind kind) { ++tally.fired[static_cast<std::size_t>(kind)]; }

  const FaultPlan plan;
  FaultTally tally;
  bool healed = false;
};

// Starts at once, so that what is behind sees operations in the policy's order.
struct DetachedFault {
  struct promise_type {
    DetachedFault get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
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
