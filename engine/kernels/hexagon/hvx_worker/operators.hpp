// The operators of a request, on top of the kernels.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/system.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

struct Regions {
  const unsigned char* inbound;
  uint32_t inbound_bytes;
  unsigned char* outbound;
  uint32_t outbound_bytes;
  Response& response() const { return *reinterpret_cast<Response*>(outbound); }
};

// By any thread. Progress goes out of the cache at once: a CPU that sees none takes the worker for hung.
inline void advance(volatile uint32_t& progress) {
  __atomic_fetch_add(&progress, 1, __ATOMIC_RELAXED);
  clean_cache(&progress, sizeof progress);
}

// True when the operator is one that this worker has, and its operands lie inside the regions, aligned.
bool inside(const Operator& op, const Regions& regions);

// Requires: inside(op, regions). Adds to `progress` as it goes. index: of the operator in its request.
void run(const Operator& op, uint32_t index, const Regions& regions, volatile uint32_t& progress);

}  // namespace vitro::hexagon
