// `workload.products` and `workload.softmax`: operators alone on the units of an experiment.
#pragma once
#include "engine/app/experiment.hpp"
#include "engine/parts/placement/graph_cache.hpp"

namespace vitro {

struct MatmulTimes {
  Picoseconds begin{0}, end{0};
  std::vector<Picoseconds> each;  // per product, in the order of the shapes
};

// Each product is cut by columns into a share for every unit of the machine and ends when the last share has. Its repetitions are one
// submission, as a kernel benchmark's loop on the device is. All run once before anything is timed, so that graphs are there. Operands are
// leased, never written: Requires a machine that computes nothing. Throws ConfigError when operands do not fit into memory.
Task<void> run_matmuls(Machine* machine, const EngineConfig* engine, const MatmulWorkload* work, MatmulTimes* times);

// On the last unit, where an accelerator stands. Scores come in once for all repetitions and results take their place. Requires and throws
// as above.
Task<void> run_softmax(Machine* machine, const SoftmaxWorkload* work, MatmulTimes* times);

}  // namespace vitro
