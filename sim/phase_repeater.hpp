// PhaseRepeater: replays a phase from a record instead of simulating it again.
#pragma once
#include <coroutine>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/ops/kernel_call.hpp"
#include "hw_models/compute.hpp"
#include "hw_models/dram.hpp"
#include "sim/accounting.hpp"
#include "sim/phase_record.hpp"

namespace vitro::sim {

class Core;
class SimUnit;

// The layers of a model whose weights stay in DRAM submit the same calls over and over. A phase is replayed if everything that its times
// depend on equals a recorded one, relative to its beginning: calls by their work, clocks, when units begin, and how long policy and system
// still occupy cores. All of it is compared, not a hash of it. Each event is counted and hashed, and each report reaches the meters, as in
// the record and in its order. Only the queue and the models of cores and memory are skipped, so results are the same to the bit.
// A phase is simulated if anything else is under way (a read, another task), or if a clock may change before it ends.
class PhaseRepeater {
 public:
  struct Parts {
    SimExecutor& executor;
    Accounting& accounting;
    const Meter& meter;
    const PowerMeter* power;  // null: none
    hw::ReplayableDram& dram;
    const std::vector<std::unique_ptr<Core>>& cores;  // by processor
    const std::vector<std::unique_ptr<SimUnit>>& units;
  };
  // Requires: what a call takes on any core follows from its work and from what memory gives it.
  explicit PhaseRepeater(const Parts& parts) : parts_(parts), known_(kKnown) {}

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
    PhaseRecord record;
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
  void replay(const Known& known);

  Parts parts_;
  std::vector<Known> known_;
  Start start_;
  Known* recording_ = nullptr;
  Picoseconds steady_until_{0};
  std::uint64_t clock_ = 0, repeated_ = 0;
};

}  // namespace vitro::sim
