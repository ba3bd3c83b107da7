#include "sim/machines.hpp"

#include <fmt/format.h>

#include "sim/machine.hpp"

namespace vitro::sim {

namespace {

std::unique_ptr<MachineHost> make(const MachineRequest& request, Function& function, TraceSink& trace, const hw::AddModels& add_models) {
  if (request.kind == "host") return make_host(request, function, trace);
  if (request.kind != "sim") throw ConfigError(fmt::format("machine: \"{}\" (expected one of: sim, host)", request.kind));
  if (!request.device.is_map())
    throw ConfigError("device: is missing (machine: sim needs a device file, such as configs/devices/oneplus12.yaml)");
  SimOptions options;
  options.device = request.device;
  options.threads = request.threads;
  options.alike = request.alike;
  options.unit_names = request.units;
  if (request.dram_budget) options.memory_limits = {*request.dram_budget, 0, 0, 0};
  options.phantom = request.phantom;
  options.experiment_file = request.experiment_file;
  options.scratch_folder = request.scratch_folder;
  options.seed = request.seed;
  options.add_models = add_models;
  return make_sim_machine(options, function, trace);
}

}  // namespace

std::unique_ptr<MachineHost> make_machine(const MachineRequest& request, Function& function, TraceSink& trace) {
  return make(request, function, trace, nullptr);
}

MachineFactory machines_with(hw::AddModels add_models) {
  return [add_models = std::move(add_models)](const MachineRequest& request, Function& function, TraceSink& trace) {
    return make(request, function, trace, add_models);
  };
}

}  // namespace vitro::sim
