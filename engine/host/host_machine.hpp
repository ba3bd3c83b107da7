// The real machine: worker threads, files and memory of the computer that this runs on.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/host/gpu_unit.hpp"
#include "engine/host/hexagon_unit.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/machine.hpp"

namespace vitro {

struct HostOptions {
  // How many cores to use, fastest first; 0 means all that this process may run on.
  std::uint32_t units = 0;
  bool alike = false;  // fewer than `units` where fewer are as fast as the fastest
  // Or which ones, by name: "cpu0" is the fastest. Empty: the first `units`.
  std::vector<std::string> unit_names;
  bool share_cores = false;  // several units may run on one core, for tests on small machines

  std::array<Bytes, kPlacements> memory_limits{4 * GiB, 0, 0, 0};
  bool phantom = false;                 // memory is accounted but not there
  bool lock_memory = false;             // what is leased stays in DRAM
  std::string scratch_folder;           // empty: the system's folder for temporary files
  bool force_portable_storage = false;  // pread on threads, even where io_uring works
  bool direct_io = true;
  // The policy thread runs the chains of the unit on its own CPU itself. False: a worker does, always, and the two share the CPU.
  bool policy_computes = true;
  // How long idle threads poll before they sleep. It saves the wake-up of a dispatch and keeps cores busy meanwhile
  // (docs/design/machine-host.md has the measurements). The policy thread and the worker on its CPU never spin against each other.
  Picoseconds spin{1'000'000'000};  // 1 ms
  HexagonOptions hexagon;           // with a transport: the machine has a unit "hexagon" behind its cores
  GpuOptions gpu;                   // with a device: the machine has that GPU as its last unit
  std::uint64_t seed = 0;
};

// ConfigError when there are fewer cores than asked for, or none of that name. `function` and `trace` outlive the
// machine; run() may be called from any thread, one at a time.
std::unique_ptr<MachineHost> make_host_machine(const HostOptions& options, Function& function, TraceSink& trace);

}  // namespace vitro
