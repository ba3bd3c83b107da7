// A machine that counts what policies submit to it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/machine/machine.hpp"

namespace vitro {

struct SubmissionCounts {
  std::uint64_t unit_submissions = 0;     // runs and launches: each wakes a unit or joins its queue, whatever the length of its chain
  std::uint64_t storage_submissions = 0;  // reads, writes and vector reads: a vector is one, however many requests it has

  friend SubmissionCounts operator-(const SubmissionCounts& a, const SubmissionCounts& b) {
    return {a.unit_submissions - b.unit_submissions, a.storage_submissions - b.storage_submissions};
  }
};

// The same machine, seen through decorators that count. It counts at the units and the storage of the machine itself. A unit that a policy
// puts in front of them (OffloadUnit) is not one of them: a chain that it parts is counted by its parts, where they are submitted, and not
// a second time as a whole. Loading a graph submits nothing. Policy thread only; costs no event.
class CountedMachine {
 public:
  // `inner` may be a temporary; what it refers to outlives this.
  explicit CountedMachine(const Machine& inner);
  ~CountedMachine();

  Machine& machine() { return *machine_; }
  const SubmissionCounts& counts() const { return counts_; }

 private:
  class Unit;
  class Flash;

  SubmissionCounts counts_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unique_ptr<Flash> storage_;
  std::optional<Machine> machine_;
};

}  // namespace vitro
