#include "engine/faults/faulty_machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/status.hpp"
#include "engine/faults/checked_storage.hpp"
#include "engine/faults/fault_parts.hpp"

namespace vitro {

struct FaultyMachine::Parts {
  Parts(Machine& inner, FaultPlan plan, bool scratch) : state(std::move(plan)), storage(inner.storage, state), memory(inner.memory, state) {
    check_units(inner.units);
    std::vector<ComputeUnit*> pointers;
    for (ComputeUnit* unit : inner.units) {
      units.push_back(std::make_unique<FaultyUnit>(*unit, state));
      pointers.push_back(units.back().get());
    }
    if (state.plan.checksums) checked.emplace(storage, scratch);
    Storage& seen = checked ? static_cast<Storage&>(*checked) : storage;
    machine.emplace(Machine{inner.executor, inner.clock, std::move(pointers), seen, memory, inner.trace, inner.seed});
  }

  void check_units(const std::vector<ComputeUnit*>& there) const {
    std::vector<std::string> names;
    for (const ComputeUnit* unit : there) names.push_back(unit->caps().name);
    for (const Fault& fault : state.plan.faults) {
      if (fault.unit.empty() || std::ranges::find(names, fault.unit) != names.end()) continue;
      throw ConfigError(fmt::format("faults: {} of unit \"{}\", which this machine has not (expected one of: {})", to_string(fault.kind),
                                    fault.unit, fmt::join(names, ", ")));
    }
  }

  FaultState state;
  FaultyFlash storage;
  FaultyMemory memory;
  std::optional<CheckedStorage> checked;
  std::vector<std::unique_ptr<FaultyUnit>> units;
  std::optional<Machine> machine;
};

FaultyMachine::FaultyMachine(std::unique_ptr<MachineHost> inner, FaultPlan plan, bool scratch)
    : HostDecorator(std::move(inner)), parts_(std::make_unique<Parts>(inner_->machine(), std::move(plan), scratch)) {}
FaultyMachine::~FaultyMachine() = default;

Machine& FaultyMachine::machine() { return *parts_->machine; }
const FaultTally& FaultyMachine::tally() const { return parts_->state.tally; }
void FaultyMachine::heal() { parts_->state.healed = true; }

MachineReport FaultyMachine::report(Picoseconds begin, Picoseconds end) {
  MachineReport report = inner_->report(begin, end);
  std::string fired;
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
    const std::uint64_t times = tally().fired[kind];
    if (times > 0) fired += fmt::format("{}{} {}", fired.empty() ? "" : ", ", times, to_string(static_cast<FaultKind>(kind)));
  }
  const std::size_t unreached = parts_->state.unreached(), all = parts_->state.plan.faults.size();
  report.notes.push_back(fmt::format("faults on purpose: {}{}", fired.empty() ? "none struck" : fired,
                                     unreached > 0 ? fmt::format("; {} of {} entries struck nothing", unreached, all) : ""));
  return report;
}

}  // namespace vitro
