#include "engine/kernels/hexagon/hvx_worker/dma.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kQueue = 1024;  // a power of two

struct Entry {
  Transfer transfer;
  uint32_t tag;
  bool first, last;
};
Entry queue[kQueue];
uint32_t queued = 0, taken = 0;  // may wrap: their difference counts
DmaListener listener;
alignas(128) unsigned char stack[16384];

}  // namespace

// Runs are aligned to words, and mostly to double words.
extern "C" [[gnu::noinline]] void dma_copy(const Transfer* t) {
  for (uint32_t row = 0; row < t->rows; ++row) {
    const unsigned char* from = t->from + row * t->from_pitch;
    unsigned char* to = t->to + row * t->to_pitch;
    const bool wide = ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | t->bytes) & 7) == 0;
    if (wide) {
      for (uint32_t i = 0; i < t->bytes; i += 8) *reinterpret_cast<uint64_t*>(to + i) = *reinterpret_cast<const uint64_t*>(from + i);
    } else {
      for (uint32_t i = 0; i < t->bytes; i += 4) *reinterpret_cast<uint32_t*>(to + i) = *reinterpret_cast<const uint32_t*>(from + i);
    }
  }
}

extern "C" [[gnu::noinline]] void dma_engine(void*) {
  for (;;) {
    const uint32_t waiting = look(queued);
    if (waiting == taken) {
      sleep_while(queued, waiting);
      continue;
    }
    const Entry entry = queue[taken & (kQueue - 1)];
    if (entry.first) listener.begun(entry.tag);
    dma_copy(&entry.transfer);
    raise(taken);
    if (entry.last) listener.done(entry.tag);
  }
}

bool dma_start(const DmaListener& to) {
  listener = to;
  return start_thread(stack, sizeof stack, false, dma_engine, nullptr);
}

void dma_queue(const Transfer& transfer, uint32_t tag, bool first, bool last) {
  while (queued - look(taken) == kQueue) {
    wake(queued);
    sleep_us(20);
  }
  queue[queued & (kQueue - 1)] = {transfer, tag, first, last};
  raise(queued);
  if (last) wake(queued);
}

}  // namespace vitro::hexagon
