// Traffic generators for either fidelity: agents that keep a number of requests outstanding for a while.
#pragma once
#include <string>
#include <vector>

#include "hw_models/dram.hpp"
#include "hw_models/event_loop.hpp"

namespace vitro::hw {

// What one agent asks for, again and again. Addresses go on from request to request; the three patterns:
//   sequential  chunk 0
//   strided     chunk and stride
//   random      chunk, stride 0
struct DramAgent {
  std::string name;
  BytesPerSecond cap{1e12};
  Bytes request = 32;             // bytes per request
  std::uint32_t outstanding = 1;  // 1 with 32 bytes at random: a pointer chase
  Bytes chunk = 0, stride = 0;
  double writes = 0;            // share of the requests, evenly spread
  double written = 0;           // share of the bytes of the other requests
  Bytes range = 0;              // random and strided addresses stay below it; 0: 1 GiB
  std::uint32_t placement = 0;  // another number, other places for its data: how banks collide is a matter of luck
};

struct DramAgentResult {
  double gb_per_s = 0;         // of requested bytes
  double mean_latency_ns = 0;  // from submission to the last byte
  std::uint64_t requests = 0;
};

struct DramProbeResult {
  std::vector<DramAgentResult> agents;
  double gb_per_s = 0;  // of all
};

// Runs `agents` on `dram`, which lives on `loop` and has no ports yet, through `warm_up` and then `window`, which is what counts.
// Requests are still under way when it returns: neither may be used any further.
DramProbeResult probe(DramModel& dram, EventLoop& loop, const std::vector<DramAgent>& agents, Picoseconds warm_up, Picoseconds window);

// The patterns that characterisation reports, by name: sequential, strided_*, random_*, chunks_4kib, chunks_16kib, mixed_*,
// pointer_chase.
struct DramPattern {
  std::string name;
  std::vector<DramAgent> agents;
};
std::vector<DramPattern> dram_patterns();

}  // namespace vitro::hw
