// The DMA engine behind an interface: transfers are queued, run in their order while the worker computes, and say when they are done.
// Here a thread stands in for the engine; on a phone descriptors of user DMA take its place (dmstart, dmlink, dmpoll).
#pragma once
#include "engine/kernels/hexagon/hvx_worker/system.hpp"

namespace vitro::hexagon {

// `rows` runs of `bytes` (a multiple of 4), `from_pitch` and `to_pitch` bytes apart: a 2D descriptor. No rows: nothing moves.
struct Transfer {
  const unsigned char* from;
  unsigned char* to;
  uint32_t bytes, rows, from_pitch, to_pitch;
};
constexpr Transfer run_of(const unsigned char* from, unsigned char* to, uint32_t bytes) { return {from, to, bytes, 1, 0, 0}; }

// What the engine does with one, by the thread that calls it.
extern "C" void dma_copy(const Transfer* transfer);

// Called by the engine's thread when it takes the first transfer of a chain, and behind the last one.
struct DmaListener {
  void (*begun)(uint32_t tag);
  void (*done)(uint32_t tag);
};

// False when the engine can not be started. Requires: once, before the first transfer.
bool dma_start(const DmaListener& listener);
// Queues a transfer of a chain; `first` and `last` of it. Returns at once while the queue has room. One thread queues.
void dma_queue(const Transfer& transfer, uint32_t tag, bool first, bool last);

}  // namespace vitro::hexagon
