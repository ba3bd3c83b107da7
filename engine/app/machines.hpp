// How a session asks for a machine, and the factory for the real one.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/base/stage_plan.hpp"
#include "engine/base/worker_transport.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/machine.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {

struct MachineRequest {
  std::string kind;                // "sim" or "host"
  Node device;                     // sim: the SoC
  std::vector<std::string> units;  // names; empty: the `threads` fastest cores
  std::uint32_t threads = 1;
  bool alike = false;                // fewer than `threads` where fewer are as fast as the fastest
  std::optional<Bytes> dram_budget;  // none: what the device has
  bool phantom = false;              // no bytes behind leases and files
  bool lock_memory = false;          // host: what is leased stays in DRAM
  std::uint64_t seed = 1;
  std::string experiment_file;                       // a device's parameters that it states are the user's own; empty: none
  std::string scratch_folder;                        // empty: the system's folder for temporary files
  CodeMatmul code_products = CodeMatmul::automatic;  // of an accelerator that lays weights out itself
  std::uint32_t hvx_threads = 4, stage_buffers = 2;  // host: of a Hexagon's worker
  hexagon::Spill spill = hexagon::Spill::tcm;
  WorkerTransport transport = WorkerTransport::automatic;
};
// Throws ConfigError for a device or units that do not fit. Function and trace outlive the machine.
using MachineFactory = std::function<std::unique_ptr<MachineHost>(const MachineRequest&, Function&, TraceSink&)>;

// For kind "host"; ConfigError for any other. sim/machines.hpp has the one that knows both.
std::unique_ptr<MachineHost> make_host(const MachineRequest& request, Function& function, TraceSink& trace);

}  // namespace vitro
