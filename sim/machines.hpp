// The machine factory of builds with a simulator: knows "sim" and "host".
#pragma once
#include <memory>

#include "engine/experiment/machines.hpp"

namespace vitro::sim {

// Throws ConfigError for another kind, and as make_sim_machine() and make_host() do.
std::unique_ptr<MachineHost> make_machine(const MachineRequest& request, Function& function, TraceSink& trace);

}  // namespace vitro::sim
