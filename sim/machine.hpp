// The simulated machine: engine/machine over the hardware models of one phone.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/machine/function.hpp"
#include "engine/machine/machine.hpp"
#include "hw_models/plugin_loader.hpp"
#include "sim/soc.hpp"
#include "sim/work.hpp"

namespace vitro::sim {

struct SimOptions {
  Node device;  // a device file, see docs/guide/adding-a-device.md
  // How many CPU cores to use, fastest first, without accelerators; 0: every processor of the device.
  std::uint32_t threads = 0;
  bool alike = false;  // fewer than `threads` where fewer are as fast as the fastest
  // Or which processors, by name: "cpu0" is the fastest, "npu". Empty: as `threads` says.
  std::vector<std::string> unit_names;
  std::string policy_core = "cpu0";  // runs the policy, whether it is a unit or not

  // None: what the device leaves to one application, and what a session of its NPU maps.
  std::optional<std::array<Bytes, kPlacements>> memory_limits;
  bool phantom = false;         // memory and scratch files are accounted but not there
  // Parameters of the device that this file or an override states are the user's own: those that no model reads are named in a note.
  std::string experiment_file;
  std::string scratch_folder;   // empty: the system's folder for temporary files
  bool check_operands = false;  // see operand_check.hpp; costs a pass over all operands per call
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> shuffle;  // draws the order of events of equal time
  CountFunction count = nullptr;         // what a call needs; by default count() of engine/kernels
  hw::AddModels add_models = nullptr;    // device models beside those compiled in and those of the device's plug-ins
};

// ConfigError when the device file is wrong or has no unit of a name. `function` and `trace` outlive the machine.
// SystemC elaborates once: one machine per process, except in tests that swap the simulation context.
std::unique_ptr<MachineHost> make_sim_machine(const SimOptions& options, Function& function, TraceSink& trace);

}  // namespace vitro::sim
