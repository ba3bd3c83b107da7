#include "sim/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "engine/machine/budgeted_memory.hpp"
#include "hw_models/tlm/loader.hpp"
#include "sim/device_context.hpp"
#include "sim/accounting.hpp"
#include "sim/executor.hpp"
#include "sim/phase_repeater.hpp"
#include "sim/power_meter.hpp"
#include "sim/storage.hpp"
#include "sim/unit.hpp"

namespace vitro::sim {
namespace {

class SimClock final : public Clock {
 public:
  SimClock(SimExecutor& executor, Core& core, const Soc& soc) : executor_(executor), core_(core), soc_(soc) {}

  Picoseconds now() const override { return executor_.now(); }
  void charge(PolicyWork work, std::uint32_t n) override { occupy(SystemWork::policy, soc_.policy_cycles(work) * n); }
  void take_in_result() { occupy(SystemWork::take_result, soc_.barrier_cycles()); }

 private:
  void occupy(SystemWork kind, double cycles) {
    executor_.hold_policy_until(core_.system_work(kind, executor_.now(), from_seconds(cycles / core_.model().clock().value)));
  }

  SimExecutor& executor_;
  Core& core_;
  const Soc& soc_;
};

class SimMachine final : public MachineHost {
 public:
  SimMachine(const SimOptions& options, Function& function, TraceSink& trace);

  Machine& machine() override { return *machine_; }
  std::string_view kind() const override { return "sim"; }
  void run(Task<void> task) override;
  MachineReport report(Picoseconds begin, Picoseconds end) override;
  std::optional<double> joules(Picoseconds begin, Picoseconds end) override;

 private:
  std::vector<std::string> chosen_units(const SimOptions& options);
  std::array<Bytes, kPlacements> device_limits();
  bool uses(std::string_view processor) const;  // for kernels or for the policy
  Core& core_named(std::string_view name, std::string_view why);
  void repeat_phases(const SimOptions& options, const TraceSink& trace);
  double cpu_utilization(Picoseconds begin, Picoseconds end);
  std::pair<double, double> cpu_busy(Picoseconds begin, Picoseconds end);

  CountFunction count_;
  SimExecutor executor_;
  DeviceContext context_;
  hw::Registry registry_;
  Soc soc_;
  std::vector<std::unique_ptr<Core>> cores_;  // one per processor of the SoC
  std::vector<std::string> unit_names_;
  std::string policy_core_, experiment_file_;
  Meter meter_;
  std::optional<PowerMeter> power_;
  EnergyCauses causes_;
  std::optional<Accounting> accounting_;
  BudgetedMemory memory_;
  std::optional<ReuseTracker> reuse_;
  std::vector<std::unique_ptr<SimUnit>> units_;
  std::optional<SimClock> clock_;
  std::optional<PhaseRepeater> repeater_;
  std::optional<SimStorage> storage_;
  std::optional<Machine> machine_;
};

SimMachine::SimMachine(const SimOptions& options, Function& function, TraceSink& trace)
    : count_(options.count ? options.count : CountFunction(&vitro::count)),
      executor_(options.shuffle),
      context_(executor_, trace, options.seed),
      registry_(hw::models_for(options.device, options.add_models, hw::register_tlm)),
      soc_(options.device, context_, registry_),
      unit_names_(chosen_units(options)),
      policy_core_(options.policy_core),
      experiment_file_(options.experiment_file),
      meter_(soc_.processors().size()),
      memory_(options.memory_limits.value_or(device_limits()), options.phantom) {
  for (const Processor& processor : soc_.processors()) {
    if (processor.params->tables().contains("miss_time")) reuse_.emplace(unit_names_.size());
  }
  if (soc_.power() != nullptr) {
    std::vector<bool> used;
    for (const Processor& processor : soc_.processors()) used.push_back(uses(processor.name));
    power_.emplace(*soc_.power(), soc_, meter_, context_, trace, std::move(used));
  }
  PowerMeter* const power = power_ ? &*power_ : nullptr;
  accounting_.emplace(executor_, meter_, power, &causes_);
  for (Processor& processor : soc_.processors()) {
    cores_.push_back(std::make_unique<Core>(*processor.model, *accounting_, cores_.size(), trace, processor.name));
  }
  Core& policy_core = core_named(options.policy_core, "policy_core");
  if (soc_.processors()[policy_core.processor()].kind != UnitKind::core)
    throw ConfigError(fmt::format("policy_core: \"{}\" is not a CPU core", options.policy_core));

  std::vector<ComputeUnit*> units;
  for (const std::string& name : unit_names_) {
    Core& core = core_named(name, "engine.units");
    const hw::DispatchCosts& dispatch = core.model().dispatch();
    UnitCaps caps;
    caps.id = UnitId(units_.size());
    caps.name = name;
    for (const Processor& processor : soc_.processors()) {
      if (processor.name != name) continue;
      caps.kind = processor.kind;
      caps.core_class = processor.core_class;
    }
    caps.static_graphs = dispatch.static_graphs;
    caps.session_limit = dispatch.session_limit;
    caps.graph_weights = dispatch.graph_weights;
    caps.graph_count = dispatch.graph_count;
    caps.shape_multiple = dispatch.shape_multiple;
    units_.push_back(
        std::make_unique<SimUnit>(std::move(caps), core, context_.device(name),
                                  SimUnit::Surroundings{executor_, function, trace, meter_, *accounting_, power,
                                                        power_ ? &causes_ : nullptr, count_, reuse_ ? &*reuse_ : nullptr, units_,
                                                        policy_core, soc_.policy_wakes(), options.check_operands,
                                                        soc_.calls_together()}));
    units.push_back(units_.back().get());
  }
  clock_.emplace(executor_, policy_core, soc_);
  storage_.emplace(
      soc_.storage(), context_.device("storage"), options.phantom,
      SimStorage::Surroundings{executor_, trace, meter_, power, units_, policy_core, soc_.mapped_page_cycles(), options.scratch_folder});
  if (soc_.barrier_cycles() > 0) executor_.on_result([this] { clock_->take_in_result(); });
  machine_.emplace(Machine{executor_, *clock_, std::move(units), *storage_, memory_, trace, options.seed});
  repeat_phases(options, trace);
}

// Where a phase's times follow from what PhaseRepeater compares, and nobody wants to see each event.
void SimMachine::repeat_phases(const SimOptions& options, const TraceSink& trace) {
  auto* const dram = dynamic_cast<hw::ReplayableDram*>(&soc_.dram());
  const auto may_remember = [](const auto& unit) { return unit->caps().kind == UnitKind::core && !unit->core().model().stateless(); };
  const bool plain = !reuse_ && !trace.enabled() && !options.check_operands;
  if (!soc_.phases_repeated() || !plain || dram == nullptr || std::ranges::any_of(units_, may_remember)) return;
  const PowerMeter* const power = power_ ? &*power_ : nullptr;
  repeater_.emplace(PhaseRepeater::Parts{executor_, *accounting_, meter_, power, *dram, cores_, units_});
  executor_.set_repeater(&*repeater_);
}

void SimMachine::run(Task<void> task) {
  try {
    executor_.run(task);
  } catch (...) {
    // Frames with operations in flight can not be unwound, and the error matters more than their memory.
    static auto* const abandoned = new std::vector<Task<void>>;
    if (!task.done()) abandoned->push_back(std::move(task));
    throw;
  }
}

std::vector<std::string> SimMachine::chosen_units(const SimOptions& options) {
  if (!options.unit_names.empty()) {
    for (std::size_t i = 0; i < options.unit_names.size(); ++i) {
      const auto end = options.unit_names.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(options.unit_names.begin(), end, *end) != end) throw ConfigError(fmt::format("units: \"{}\" is named twice", *end));
    }
    return options.unit_names;
  }
  std::vector<std::string> names;
  const Processor& fastest = soc_.processors().front();
  for (const Processor& processor : soc_.processors()) {
    const bool cpu = processor.kind == UnitKind::core;
    if (options.alike && !names.empty() && !(cpu && processor.as_fast_as(fastest))) break;
    if (options.threads == 0 || (cpu && names.size() < options.threads)) names.push_back(processor.name);
  }
  if (names.size() < options.threads && !options.alike) {
    throw ConfigError(fmt::format("{} CPU cores are needed, but {} has {}", options.threads, soc_.name(), names.size()));
  }
  return names;
}

std::array<Bytes, kPlacements> SimMachine::device_limits() {
  std::array<Bytes, kPlacements> limits{soc_.summary().dram_available, 0, 0, 0};
  for (const Processor& processor : soc_.processors()) {
    if (processor.kind == UnitKind::core) continue;
    const hw::DispatchCosts& dispatch = processor.model->dispatch();
    Bytes& mapped = limits[static_cast<std::size_t>(dispatch.static_graphs ? Placement::npu_mapped : Placement::gpu)];
    // Without a session of its own an accelerator sees all memory.
    mapped = dispatch.session_limit > 0 ? mapped + dispatch.session_limit : limits[0];
  }
  return limits;
}

Core& SimMachine::core_named(std::string_view name, std::string_view why) {
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    if (soc_.processors()[i].name == name) return *cores_[i];
    known.push_back(soc_.processors()[i].name);
  }
  throw ConfigError(fmt::format("{}: {} has no \"{}\" (expected one of: {})", why, soc_.name(), name, fmt::join(known, ", ")));
}

bool SimMachine::uses(std::string_view processor) const {
  return processor == policy_core_ || std::find(unit_names_.begin(), unit_names_.end(), processor) != unit_names_.end();
}

// Of the CPU cores among the units: kernels, and drivers or policy work on the same cores, as an operating system counts.
double SimMachine::cpu_utilization(Picoseconds begin, Picoseconds end) {
  double busy = 0;
  int cores = 0;
  for (const auto& unit : units_) {
    if (unit->caps().kind != UnitKind::core) continue;
    ++cores;
    busy += meter_.busy_seconds(unit->core().processor(), begin, end);
  }
  return cores == 0 ? 0 : busy / cores / to_seconds(end - begin);
}

// Of all cores that compute: {seconds, cycles}, by the clock that each has at the end.
std::pair<double, double> SimMachine::cpu_busy(Picoseconds begin, Picoseconds end) {
  double seconds = 0, cycles = 0;
  for (const auto& unit : units_) {
    if (unit->caps().kind != UnitKind::core) continue;
    const double busy = meter_.busy_seconds(unit->core().processor(), begin, end);
    seconds += busy;
    cycles += busy * unit->core().model().clock().value;
  }
  return {seconds, cycles};
}

std::optional<double> SimMachine::joules(Picoseconds begin, Picoseconds end) {
  if (!power_) return std::nullopt;
  meter_.settle(end);
  return power_->joules(begin, end);
}

MachineReport SimMachine::report(Picoseconds begin, Picoseconds end) {
  MachineReport report;
  for (const auto& core : cores_) core->end_trace();
  if (begin < end) {
    meter_.settle(end);
    report.io_share = meter_.io_only_seconds(begin, end) / to_seconds(end - begin);
    report.cpu_utilization = cpu_utilization(begin, end);
    std::tie(report.cpu_busy_s, report.cpu_cycles) = cpu_busy(begin, end);
    report.dram_bandwidth_gb_per_s = soc_.dram().bytes_moved(begin, end) / to_seconds(end - begin) * 1e-9;
    if (power_) {
      const PowerMeter::Joules joules = power_->parts(begin, end);
      report.energy_j = joules.sum();
      report.energy_parts_j = {{"base", joules.base}, {"units", joules.units}, {"dram", joules.dram}, {"flash", joules.flash}};
      PowerMeter::Drawn drawn = power_->drawn(begin, end, joules);
      report.energy_by_unit_j = std::move(drawn.units);
      report.energy_by_kind_j = std::move(drawn.kinds);
      EnergyCauses::Split split = causes_.split(begin, end, joules);
      report.energy_causes_j = std::move(split.causes);
      report.communication_parts_j = std::move(split.communication);
      report.peak_power_w = power_->peak_watts(begin, end);
      if (std::optional<std::string> note = power_->thermal_note(begin, end)) report.notes.push_back(std::move(*note));
    }
  }
  report.event_hash = executor_.hash().hex();
  const StorageTotals& io = storage_->totals();
  if (io.bytes_written > 0) {
    if (const hw::FlashWrites writes = soc_.storage().writes(); writes.programmed > 0) report.flash_programmed_bytes = writes.programmed;
    report.flash_rated_bytes = soc_.rated_writes();
  }
  std::vector<std::string> used = unit_names_;
  used.push_back(policy_core_);
  report.assumed_parameters = soc_.assumed_parameters(used);
  std::set<std::string> unpriced;
  for (const auto& unit : units_) unpriced.insert(unit->work().unpriced().begin(), unit->work().unpriced().end());
  report.unpriced_calls.assign(unpriced.begin(), unpriced.end());
  for (const auto& unit : units_) {
    for (std::string& note : unit->notes()) report.notes.push_back(std::move(note));
  }
  std::uint64_t runs = 0, launches = 0;
  for (const auto& unit : units_) {
    runs += unit->runs();
    launches += unit->launches();
  }
  report.counts = {{"events", executor_.events()}, {"runs", runs}, {"launches", launches}, {"reads", io.reads}, {"writes", io.writes},
                   {"posts", executor_.posts()}, {"repeated_phases", repeater_ ? repeater_->repeated() : 0}};
  for (const auto& [name, initiator] : soc_.initiators()) {
    if (begin >= end) break;
    const double rate = initiator->bytes_moved(begin, end) / to_seconds(end - begin);
    report.notes.push_back(fmt::format("{} moved {:.2f} GB/s to and from DRAM", name, rate * 1e-9));
  }
  for (std::string& note : soc_.unread_parameters(experiment_file_)) report.notes.push_back(std::move(note));
  if (const Bytes budget = memory_.budget(Placement::dram).limit, left = soc_.summary().dram_available; budget > left) {
    report.notes.push_back(fmt::format("memory.budget: {} is more than the {} that {} leaves to one application (dram.available)",
                                       format_bytes(budget), format_bytes(left), soc_.name()));
  }
  report.notes.push_back(fmt::format("{}: {}; {} events", soc_.name(), soc_.models(), executor_.events()));
  return report;
}

}  // namespace

std::unique_ptr<MachineHost> make_sim_machine(const SimOptions& options, Function& function, TraceSink& trace) {
  return std::make_unique<SimMachine>(options, function, trace);
}

}  // namespace vitro::sim
