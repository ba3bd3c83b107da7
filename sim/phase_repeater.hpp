// PhaseRepeater: tells the books of a phase that has gone before from a tape, instead of simulating it again.
#pragma once
#include <coroutine>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/ops/kernel_call.hpp"
#include "hw_models/compute.hpp"
#include "hw_models/dram.hpp"
#include "sim/books.hpp"
#include "sim/tape.hpp"

namespace vitro::sim {

class Core;
class SimUnit;

// The layers of a model whose weights stay in DRAM submit the same calls over and over. A phase is known if everything that its times
// depend on is equal, relative to its beginning: calls by their work, clocks, what the policy and the system still have to do, and events
// that wait. All of it is compared, not a hash of it. Then each event is counted, hashed and booked as it was the first time, in the same
// order, by the same books; only the queue, the cores' and the memory's models are left out. So results are the same to the bit.
// A phase that nothing of this can be said of is simulated: when a trace is recorded, when anything else is under way (a read, another
// task, another SystemC module), and when a clock may change before it ends.
class PhaseRepeater {
 public:
  struct Machine {
    SimExecutor& executor;
    Books& books;
    const Meter& meter;
    const PowerMeter* power;  // null: none
    hw::RepeatableDram& dram;
    const std::vector<std::unique_ptr<Core>>& cores;  // by processor
    const std::vector<std::unique_ptr<SimUnit>>& units;
  };
  // Requires: what a call takes on any core follows from its work and from what memory gives it.
  explicit PhaseRepeater(const Machine& machine) : m_(machine), known_(kKnown) {}

  // As Executor::phase_submitted() and phase_ended().
  bool submitted(std::coroutine_handle<> waiter);
  void ended();

  std::uint64_t repeated() const { return repeated_; }  // phases, so far

 private:
  static constexpr std::size_t kKnown = 24;  // five or six phases of a layer, in a few circumstances; attention differs in each token

  struct Call {
    OpKind op{};
    hw::Work work;
    bool operator==(const Call&) const = default;
  };
  struct Start {
    std::vector<std::uint64_t> numbers;
    std::vector<Call> calls;
    std::size_t count = 0;  // of calls; their room is kept
    std::uint64_t hash = 0;
    bool operator==(const Start& other) const;
  };
  struct Known {
    Start start;
    Tape tape;
    bool valid = false;
    std::uint64_t used = 0;  // when
    // At the end, since the beginning.
    Picoseconds now{0}, policy_free{0};
    std::uint64_t posts = 0;
  };

  bool only_this_waits(std::coroutine_handle<> waiter);
  void describe();  // start_
  Known* find();
  Known& oldest();
  void play(const Known& known);

  Machine m_;
  std::vector<Known> known_;
  Start start_;
  Known* recording_ = nullptr;
  Picoseconds steady_until_{0};
  std::uint64_t clock_ = 0, repeated_ = 0;
};

}  // namespace vitro::sim
