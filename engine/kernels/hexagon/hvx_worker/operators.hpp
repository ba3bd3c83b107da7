// The operators of a request, on top of the kernels.
#pragma once
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

struct Regions {
  const unsigned char* inbound;
  uint32_t inbound_bytes;
  unsigned char* outbound;
  uint32_t outbound_bytes;
};

// True when the operator is one that this worker has, and its operands lie inside the regions, aligned.
bool inside(const Operator& op, const Regions& regions);

// Requires: inside(op, regions). Adds to `progress` as it goes.
void run(const Operator& op, const Regions& regions, volatile uint32_t& progress);

}  // namespace vitro::hexagon
