// A machine that goes wrong as a plan says. It stands before any other one (virtual, simulated, real), and no policy can tell.
#pragma once
#include <memory>

#include "engine/faults/fault_state.hpp"
#include "engine/machine/host_decorator.hpp"

namespace vitro {

// Faults strike between the policy and the machine behind this, in the terms of the machine interface: what is refused or shortened never
// reaches the storage or unit behind; what is late completes behind in time, and here later. With FaultPlan::checksums a CheckedStorage
// stands before the storage's faults; with `scratch` it checks scratch files as well, else the engine does so (engine.kv.checksums). A hang
// is what a machine makes of it after its time-out, for every operation completes: a failure that comes late.
// Threads: as the machine behind. Cost: an event per operation.
class FaultyMachine final : public HostDecorator {
 public:
  // Throws ConfigError for a fault of a unit that the machine has not.
  FaultyMachine(std::unique_ptr<MachineHost> inner, FaultPlan plan, bool scratch = true);
  ~FaultyMachine() override;

  Machine& machine() override;
  // The machine's, with a note of what fired.
  MachineReport report(Picoseconds begin, Picoseconds end) override;

  const FaultTally& tally() const;
  // Nothing goes wrong from here on: the storage is back, units that died were replaced. Operations are still counted.
  void heal();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace vitro
