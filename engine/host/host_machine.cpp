#include "engine/host/host_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "engine/host/cpu_topology.hpp"
#include "engine/host/host_storage.hpp"
#include "engine/host/host_unit.hpp"
#include "engine/host/thread_placement.hpp"
#include "engine/machine/budgeted_memory.hpp"

namespace vitro {
namespace {

UnitCaps caps_of(std::size_t index, const Core& core) {
  UnitCaps caps;
  caps.kind = UnitKind::core;
  caps.name = fmt::format("cpu{}", index);
  caps.core_class = core.core_class;
  caps.os_cpu = core.os_cpu;
  return caps;
}

std::vector<UnitCaps> choose_units(const HostOptions& options, const std::vector<Core>& cores) {
  std::size_t wanted = options.unit_names.empty() ? (options.units == 0 ? cores.size() : options.units) : options.unit_names.size();
  if (options.alike) {
    const auto like_first = [&](const Core& core) { return core.core_class == cores.front().core_class; };
    wanted = std::min(wanted, static_cast<std::size_t>(std::ranges::count_if(cores, like_first)));
  }
  if (wanted > cores.size() && !options.share_cores) {
    throw ConfigError(fmt::format("machine.host: {} units are named, but this process may use only {} core{}", wanted, cores.size(),
                                  cores.size() == 1 ? "" : "s"));
  }
  // Under share_cores the list goes round: cpu0 and cpuN are the same core.
  std::vector<UnitCaps> all;
  for (std::size_t i = 0; i < std::max(wanted, cores.size()); ++i) all.push_back(caps_of(i, cores[i % cores.size()]));
  std::vector<UnitCaps> chosen;
  if (options.unit_names.empty()) {
    chosen.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted));
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto n = std::count(options.unit_names.begin(), options.unit_names.end(), all[i].name);
      if (n > 1) throw ConfigError(fmt::format("machine.host: unit \"{}\" is named twice", all[i].name));
      if (n == 1) chosen.push_back(all[i]);
    }
    for (const std::string& name : options.unit_names) {
      if (std::none_of(chosen.begin(), chosen.end(), [&](const UnitCaps& caps) { return caps.name == name; })) {
        throw ConfigError(fmt::format("machine.host: there is no unit \"{}\" (expected cpu0 to cpu{})", name, all.size() - 1));
      }
    }
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i].id = UnitId(i);
  return chosen;
}

class HostMachine final : public MachineHost {
 public:
  HostMachine(const HostOptions& options, std::vector<UnitCaps> caps, std::size_t cores, Function& function, TraceSink& trace)
      : activity_(caps.size() + (options.hexagon.transport ? 1 : 0) + (options.gpu.device ? 1 : 0)),
        memory_(options.memory_limits, options.phantom, options.lock_memory) {
    std::unique_ptr<IoBackend> backend;
    std::string why;
    if (!options.force_portable_storage) backend = make_uring_backend(executor_, why);
    if (!backend) {
      notes_.push_back(fmt::format("io_uring is not used ({}): pread on threads", options.force_portable_storage ? "as asked" : why));
      backend = make_pread_backend(executor_);
    }
    const std::string folder = options.scratch_folder.empty() ? std::filesystem::temp_directory_path().string() : options.scratch_folder;
    storage_.emplace(executor_, std::move(backend), options.direct_io, folder, activity_, trace);
    executor_.add(*storage_);

    if (caps.size() < cores) notes_.push_back(fmt::format("{} of {} cores", caps.size(), cores));
    if (caps.size() > cores) notes_.push_back(fmt::format("{} units share {} cores", caps.size(), cores));
    std::vector<ComputeUnit*> pointers;
    for (std::size_t i = 0; i < caps.size(); ++i) {
      const bool beside_policy = caps[i].os_cpu == caps[0].os_cpu;
      const Picoseconds spin = beside_policy ? Picoseconds(0) : options.spin;
      const Device* const storage = i == 0 && options.policy_computes ? &*storage_ : nullptr;
      units_.push_back(std::make_unique<HostUnit>(caps[i], i, spin, executor_, function, trace, activity_, storage));
      executor_.add(*units_.back());
      pointers.push_back(units_.back().get());
      if (!units_.back()->pinned()) notes_.push_back(fmt::format("{} could not be pinned to CPU {}", caps[i].name, caps[i].os_cpu));
    }
    if (options.hexagon.transport) {
      const std::size_t index = units_.size();
      hexagon_ = std::make_unique<HexagonUnit>(UnitId(index), index, options.hexagon, executor_, function, trace, activity_, memory_);
      memory_.share(Placement::npu_mapped, hexagon_->pages());
      executor_.add(*hexagon_);
      pointers.push_back(hexagon_.get());
    }
    if (options.gpu.device) {
      const std::size_t index = pointers.size();
      gpu_ = std::make_unique<GpuUnit>(UnitId(index), index, options.gpu, executor_, function, trace, activity_);
      executor_.add(*gpu_);
      pointers.push_back(gpu_.get());
    }
    executor_.set_spin(options.spin, *units_[0]);
    machine_.emplace(Machine{executor_, executor_, std::move(pointers), *storage_, memory_, trace, options.seed});
  }

  Machine& machine() override { return *machine_; }
  std::string_view kind() const override { return "host"; }

  void run(Task<void> task) override {
    const PolicyThreadPlacement placement(units_.front()->caps().os_cpu);
    executor_.run(task);
  }

  MachineReport report(Picoseconds begin, Picoseconds end) override {
    MachineReport report;
    report.notes = notes_;
    report.notes.insert(report.notes.begin(), "storage: " + storage_->caps().path);
    report.notes.insert(report.notes.end(), storage_->notes().begin(), storage_->notes().end());
    if (hexagon_) report_hexagon(report);
    if (gpu_) report_gpu(report);
    if (begin >= end) return report;
    report.io_share = activity_.io_share(begin, end);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < units_.size(); ++i) all.push_back(i);
    report.cpu_utilization = activity_.utilization(all, begin, end);
    report.cpu_busy_s = *report.cpu_utilization * static_cast<double>(all.size()) * to_seconds(end - begin);
    return report;
  }

 private:
  void report_hexagon(MachineReport& report) {
    const std::vector<std::string> notes = hexagon_->notes();
    report.notes.insert(report.notes.end(), notes.begin(), notes.end());
    std::uint64_t packets = 0, vector_packets = 0;
    const std::vector<PacketCount> counts = hexagon_->packets();
    for (const PacketCount& count : counts) {
      packets += count.packets;
      vector_packets += count.vector_packets;
    }
    const hexagon::StageOverlap& stages = hexagon_->stage_overlap();
    report.counts.insert(report.counts.end(), {{"hexagon_operators", hexagon_->operators()},
                                               {"hexagon_requests", hexagon_->requests()},
                                               {"hexagon_copied_bytes", hexagon_->weights().copied()},
                                               {"hexagon_shared_bytes", hexagon_->weights().shared()},
                                               {"hexagon_packets", packets},
                                               {"hexagon_hvx_packets", vector_packets},
                                               {"hexagon_stage_steps", stages.steps},
                                               {"hexagon_transfers_ahead", stages.transfers_ahead}});
    for (const auto place : {hexagon::Spill::tcm, hexagon::Spill::l2, hexagon::Spill::dram}) {
      const Bytes bytes = hexagon_->spilled(place);
      const char* const name = hexagon::kSpillNames[static_cast<int>(place)];
      if (bytes > 0) report.counts.emplace_back(fmt::format("hexagon_spilled_bytes.{}", name), bytes);
    }
    for (const hexagon::StagePackets& of : hexagon::packets_by_stage(counts)) {
      report.counts.emplace_back(fmt::format("hexagon_packets.{}.{}", of.stage, of.thread), of.packets);
    }
  }

  void report_gpu(MachineReport& report) {
    const std::vector<std::string> notes = gpu_->notes();
    report.notes.insert(report.notes.end(), notes.begin(), notes.end());
    report.counts.insert(report.counts.end(),
                         {{"gpu_products", gpu_->products()}, {"gpu_requests", gpu_->requests()}, {"gpu_launches", gpu_->launches()}});
  }

  // In the order of dependence: workers and backend go first, while the executor that they post to still lives.
  HostExecutor executor_;
  Activity activity_;
  BudgetedMemory memory_;
  std::optional<HostStorage> storage_;
  std::vector<std::unique_ptr<HostUnit>> units_;
  std::unique_ptr<HexagonUnit> hexagon_;
  std::unique_ptr<GpuUnit> gpu_;
  std::optional<Machine> machine_;
  std::vector<std::string> notes_;
};

}  // namespace

std::unique_ptr<MachineHost> make_host_machine(const HostOptions& options, Function& function, TraceSink& trace) {
  const std::vector<Core> cores = read_topology("/sys/devices/system/cpu", allowed_cpus());
  return std::make_unique<HostMachine>(options, choose_units(options, cores), cores.size(), function, trace);
}

}  // namespace vitro
