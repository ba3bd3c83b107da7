// The DRAM models' own microbenchmarks, as rows for `vitro characterize`: against a public simulator, and against each other.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/base/units.hpp"

namespace vitro::hw {

struct DramReferenceRow {
  std::string id, unit;
  double expected = 0, simulated = 0;
};
// LPDDR5-6400, 4 channels x16, 32 B requests: what a public cycle-accurate simulator gave, and what the detailed model gives.
// Latencies count from the controller's queue.
std::vector<DramReferenceRow> dram_reference_rows();

struct DramFidelityRow {
  std::string agent;              // "all": their sum
  double detailed = 0, flow = 0;  // GB/s
};
// A pattern of dram_patterns() on both fidelities of a device's memory (the `dram:` block of its file); the detailed one is
// averaged over `placements` of the agents' data (0: as many as their number wants), since how their banks collide is a matter of
// luck and the flow model knows no addresses. The measured bandwidth of the device is left out: it would hide what differs.
// Throws ConfigError when the block names no part, without which a flow model has no twin, or the pattern does not exist.
std::vector<DramFidelityRow> dram_fidelity(const Node& dram, std::string_view pattern, std::uint32_t placements = 0);
// The same for a part alone.
std::vector<DramFidelityRow> dram_part_fidelity(std::string_view part, std::string_view pattern, std::uint32_t placements = 0);

}  // namespace vitro::hw
