// How fast simulating is on this machine: events, and what the detailed models get through. `vitro bench sim` prints the rows
// beside those of whole runs (docs/design/sim-speed.md).
#pragma once
#include <vector>

#include "engine/base/config.hpp"
#include "engine/kernels/bench.hpp"
#include "engine/machine/clock.hpp"

namespace vitro::sim {

// `storage`: the ufs block of a device file. `clock` is a real one. SystemC elaborates once: one call per process.
std::vector<BenchRow> bench_simulation(const Node& storage, bool smoke, const Clock& clock);

}  // namespace vitro::sim
