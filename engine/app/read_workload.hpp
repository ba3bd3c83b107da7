// `workload:` of an experiment.
#pragma once
#include "engine/app/experiment.hpp"

namespace vitro {

// Throws ConfigError at the key that is wrong. `numerics`: tokens are computed, so samples can differ. `adapters`: LoraConfig::names().
Workload read_workload(Reader reader, bool numerics, const std::vector<std::string>& adapters);

}  // namespace vitro
