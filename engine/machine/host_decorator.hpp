// A MachineHost in front of another: passes everything on, and lets a subclass give policies another Machine.
#pragma once
#include <memory>
#include <utility>

#include "engine/machine/machine.hpp"

namespace vitro {

class HostDecorator : public MachineHost {
 public:
  explicit HostDecorator(std::unique_ptr<MachineHost> inner) : inner_(std::move(inner)) {}

  std::string_view kind() const override { return inner_->kind(); }
  void run(Task<void> task) override { inner_->run(std::move(task)); }
  MachineReport report(Picoseconds begin, Picoseconds end) override { return inner_->report(begin, end); }
  std::optional<double> joules(Picoseconds begin, Picoseconds end) override { return inner_->joules(begin, end); }

 protected:
  std::unique_ptr<MachineHost> inner_;
};

}  // namespace vitro
