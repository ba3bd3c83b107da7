#include "engine/app/machines.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "engine/host/hexagon_fastrpc.hpp"
#include "engine/host/hexagon_qemu.hpp"
#include "engine/host/host_machine.hpp"
#include "engine/host/opencl_device.hpp"
#include "engine/parts/placement/placement_config.hpp"

namespace vitro {
namespace {

// A GPU is an OpenCL device: "gpu" the first, "gpu1" the second.
void take_gpu(HostOptions& options) {
  const auto named = std::ranges::find_if(options.unit_names, is_gpu_name);
  if (named == options.unit_names.end()) return;
  const std::string name = *named;
  options.unit_names.erase(named);
  OpenclOptions device;
  const char* const end = name.data() + name.size();
  const char* const digits = name.data() + 3;
  if (digits != end && std::from_chars(digits, end, device.index).ptr != end) {
    throw ConfigError(fmt::format("engine.units: there is no \"{}\" (expected gpu, gpu0, gpu1, ...)", name));
  }
  options.gpu = {name, [device] { return make_opencl_device(device); }};
}

HexagonTransportFactory hexagon_transport(WorkerTransport way) {
  std::string why;
  const bool fastrpc = way == WorkerTransport::fastrpc || (way == WorkerTransport::automatic && have_fastrpc(why));
  if (fastrpc) return [] { return make_fastrpc_hexagon(); };
  return [] { return make_qemu_hexagon(); };
}

}  // namespace

std::unique_ptr<MachineHost> make_host(const MachineRequest& request, Function& function, TraceSink& trace) {
  if (request.kind != "host") throw ConfigError("machine: this build has no simulator (expected machine: host)");
  HostOptions options;
  options.unit_names = request.units;
  if (std::erase(options.unit_names, "hexagon") > 0) options.hexagon.transport = hexagon_transport(request.transport);
  options.hexagon.products = request.code_products;
  options.hexagon.stages.threads = request.hvx_threads;
  options.hexagon.stages.buffers = request.stage_buffers;
  options.hexagon.spill = request.spill;
  take_gpu(options);
  options.units = options.unit_names.empty() ? request.threads : 0;
  options.alike = request.alike;
  const auto installed = static_cast<Bytes>(::sysconf(_SC_PHYS_PAGES)) * static_cast<Bytes>(::sysconf(_SC_PAGE_SIZE));
  options.memory_limits = {request.dram_budget.value_or(installed), 0, 0, 0};
  options.phantom = request.phantom;
  options.lock_memory = request.lock_memory;
  options.scratch_folder = request.scratch_folder;
  options.seed = request.seed;
  return make_host_machine(options, function, trace);
}

}  // namespace vitro
