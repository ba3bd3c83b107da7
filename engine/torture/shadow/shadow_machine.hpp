// A machine that is watched by a shadow model, and passes everything on.
#pragma once
#include <memory>

#include "engine/machine/host_decorator.hpp"
#include "engine/torture/shadow/shadow.hpp"

namespace vitro {

// Stands between the policy and the machine: what it sees submitted and completed is what a policy did and was told.
// Threads: as the machine behind. Cost: an event per operation.
class ShadowMachine final : public HostDecorator {
 public:
  // `shadow`, `trace`: outlive this. trace: hears the policy's decisions.
  ShadowMachine(std::unique_ptr<MachineHost> inner, Shadow& shadow, TraceSink& trace);
  ~ShadowMachine() override;

  Machine& machine() override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace vitro
