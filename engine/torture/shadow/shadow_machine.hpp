// A machine that is watched by a shadow model, and passes everything on.
#pragma once
#include <memory>

#include "engine/machine/machine.hpp"
#include "engine/torture/shadow/shadow.hpp"

namespace vitro {

// Stands between the policy and the machine: what it sees submitted and completed is what a policy did and was told.
// Threads: as the machine behind. Cost: an event per operation.
class ShadowMachine final : public MachineHost {
 public:
  // `shadow`, `trace`: outlive this. trace: hears the policy's decisions.
  ShadowMachine(std::unique_ptr<MachineHost> inner, Shadow& shadow, TraceSink& trace);
  ~ShadowMachine() override;

  Machine& machine() override;
  std::string_view kind() const override { return inner_->kind(); }
  void run(Task<void> task) override { inner_->run(std::move(task)); }
  std::optional<double> joules(Picoseconds begin, Picoseconds end) override { return inner_->joules(begin, end); }
  MachineReport report(Picoseconds begin, Picoseconds end) override { return inner_->report(begin, end); }

 private:
  struct Parts;
  std::unique_ptr<MachineHost> inner_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace vitro
