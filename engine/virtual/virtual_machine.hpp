// A machine without hardware and without SystemC: a virtual clock, units with a price per call, storage with a price per read. Where a run
// is tried and not measured: memory budgets, torture runs, and the engine's own tests, whose times are stated and computed by hand.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/machine/budgeted_memory.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/machine.hpp"

namespace vitro {

// Single-threaded heap of (time, tie, sequence) with a virtual clock: time jumps to the next event.
class VirtualExecutor final : public Executor, public Clock {
 public:
  // shuffle: draws the tie, so that events of equal time come in a random but reproducible order.
  explicit VirtualExecutor(std::optional<std::uint64_t> shuffle = std::nullopt);

  Picoseconds now() const override { return now_; }
  void post_at(Picoseconds when, std::coroutine_handle<> handle) override;
  void post_last(std::coroutine_handle<> handle) override;
  void charge(PolicyWork, std::uint32_t) override {}
  // Runs `action` as an event; for devices, which must not resume policies from their callbacks.
  void call_at(Picoseconds when, std::function<void()> action);

  // For what may never end: beyond so much time, or so many events, run() says so and aborts. 0: no limit.
  void set_limits(Picoseconds longest, std::uint64_t most_events) {
    longest_ = longest;
    most_events_ = most_events;
  }

  void run();  // until no event is left
  void run(Task<void>& task);

 private:
  struct Event {
    Picoseconds when;
    std::uint64_t tie, sequence;
    std::coroutine_handle<> handle;
    std::function<void()> action;
    bool operator<(const Event& other) const { return std::tie(when, tie, sequence) > std::tie(other.when, other.tie, other.sequence); }
  };
  void push(Picoseconds when, std::coroutine_handle<> handle, std::function<void()> action);

  std::priority_queue<Event> events_;
  std::optional<Rng> shuffle_;
  std::uint64_t sequence_ = 0, events_run_ = 0, most_events_ = 0;
  Picoseconds now_{0}, longest_{0};
};

struct VirtualMachineSpec {
  std::vector<UnitCaps> units;
  std::array<Bytes, kPlacements> memory_limits{GiB, 0, 0, 0};
  bool phantom = false;
  std::optional<std::uint64_t> shuffle;
  Picoseconds longest{0};         // of a run that may never end; see VirtualExecutor::set_limits()
  std::uint64_t most_events = 0;  // likewise
  // Time of one call on a unit, and of one read once it is at the head of the queue. Pure.
  std::function<Picoseconds(const UnitCaps&, const KernelCall&)> price = [](const UnitCaps&, const KernelCall&) {
    return Picoseconds(1000);
  };
  std::function<Picoseconds(const ReadRequest&)> read_price = [](const ReadRequest&) { return Picoseconds(1000); };
  // Faults: a status that is not ok makes the read fail with it.
  std::function<Status(const ReadRequest&)> read_fault = [](const ReadRequest&) { return Status{}; };
};

class VirtualMachine final : public MachineHost {
 public:
  VirtualMachine(VirtualMachineSpec spec, Function& function, TraceSink& trace);
  ~VirtualMachine() override;

  Machine& machine() override;
  std::string_view kind() const override { return "virtual"; }
  void run(Task<void> task) override;
  MachineReport report(Picoseconds, Picoseconds) override { return {}; }
  VirtualExecutor& executor();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vitro
