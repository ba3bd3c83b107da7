// Parameters of the flash models. One block of a device file serves both fidelities: each model names the other's keys too
// and ignores them, so that `fidelity:` can be changed without touching the rest.
#pragma once
#include <vector>

#include "hw_models/params.hpp"

namespace vitro::hw {

std::vector<ParamSpec> flow_ufs_params();
std::vector<ParamSpec> detailed_ufs_params();

// Checked reading. Throw ConfigError unless it is a whole number from 1 to 65536, or more than 0.
std::uint32_t count(const Params& params, std::string_view key);
BytesPerSecond rate(const Params& params, std::string_view key);

}  // namespace vitro::hw
