// `workload:` of an experiment.
#pragma once
#include "engine/app/experiment.hpp"

namespace vitro {

// Throws ConfigError at the key that is wrong. `numerics`: tokens are computed, so samples can differ.
Workload read_workload(Reader reader, bool numerics);

}  // namespace vitro
