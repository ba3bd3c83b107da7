// The DRAM models' own microbenchmarks, as rows for `vitro characterize`: against a public simulator, and against each other.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro::hw {

struct DramReferenceRow {
  std::string id, unit;
  double expected = 0, simulated = 0;
};
// LPDDR5-6400, 4 channels x16, 32 B requests: what a public cycle-accurate simulator gave, and what the detailed model gives.
// Latencies count from the controller's queue.
std::vector<DramReferenceRow> dram_reference_rows();

struct DramTwinRow {
  std::string pattern, agent;     // agent "all": their sum
  double detailed = 0, flow = 0;  // GB/s
};
// Every pattern of dram_patterns() on both fidelities of a part, averaged over several placements of the agents' data: how
// their banks collide is a matter of luck, and the flow model knows no addresses.
std::vector<DramTwinRow> dram_cross_fidelity(std::string_view part);

}  // namespace vitro::hw
