// Kernels side by side on units of their own, as the accelerator and the cores have them in one phase of a step: what each takes
// while the others draw on the same memory. Works on every unit: one with static graphs loads its chain first.
#pragma once
#include <vector>

#include "engine/host/probes/probe.hpp"

namespace vitro {

struct PhasePart {
  CallShape shape;
  std::vector<std::size_t> units;  // indices into Machine::units; they share the rows
  std::uint32_t copies = 1;        // of the operand, one call each, in one chain: dispatch and launch are paid once
};

struct PhaseTimes {
  std::vector<std::vector<double>> seconds;  // by part: until its last answer; one for each repetition
  std::vector<WorkCounts> counts;            // by part, all copies and units together
};
// Throws ConfigError for a shape that the kernels have no form of, RunError when a graph can not be loaded.
PhaseTimes probe_phase(MachineHost& host, const std::vector<PhasePart>& parts, std::uint32_t repetitions);

}  // namespace vitro
