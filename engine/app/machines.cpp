#include "engine/app/machines.hpp"

#include <unistd.h>

#include <algorithm>

#include "engine/host/hexagon_qemu.hpp"
#include "engine/host/host_machine.hpp"

namespace vitro {

std::unique_ptr<MachineHost> make_host(const MachineRequest& request, Function& function, TraceSink& trace) {
  if (request.kind != "host") throw ConfigError("machine: this build has no simulator (expected machine: host)");
  HostOptions options;
  options.unit_names = request.units;
  if (std::erase(options.unit_names, "hexagon") > 0) options.hexagon.transport = [] { return make_qemu_hexagon(); };
  options.hexagon.products = request.code_products;
  options.units = options.unit_names.empty() ? request.threads : 0;
  const auto installed = static_cast<Bytes>(::sysconf(_SC_PHYS_PAGES)) * static_cast<Bytes>(::sysconf(_SC_PAGE_SIZE));
  options.memory_limits = {request.dram_budget.value_or(installed), 0, 0, 0};
  options.phantom = request.phantom;
  options.scratch_folder = request.scratch_folder;
  options.seed = request.seed;
  return make_host_machine(options, function, trace);
}

}  // namespace vitro
