// The machine factory of builds with a simulator: knows "sim" and "host".
#pragma once
#include <memory>

#include "engine/app/machines.hpp"
#include "hw_models/plugin_loader.hpp"

namespace vitro::sim {

// Throws ConfigError for another kind, and as make_sim_machine() and make_host() do.
std::unique_ptr<MachineHost> make_machine(const MachineRequest& request, Function& function, TraceSink& trace);
// The same with device models of the caller's own.
MachineFactory machines_with(hw::AddModels add_models);

}  // namespace vitro::sim
