#include "engine/kernels/hexagon/hvx_worker/system.hpp"

#include "engine/kernels/hexagon/hvx_worker/linux_call.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {
namespace {

struct ThreadStart {
  void (*run)(void*);
  void* argument;
};

}  // namespace

// clone() returns twice: in the new thread on its own, empty stack, where nothing of the caller's frame is to be found.
extern "C" long vitro_clone(long flags, void* stack, long number, ThreadStart* start);
extern "C" [[noreturn]] void vitro_thread(ThreadStart* start) {
  start->run(start->argument);
  for (;;) sleep_us(1000000);
}
__asm__(
    ".globl vitro_clone\n"
    ".p2align 4\n"
    ".type vitro_clone,@function\n"
    "vitro_clone:\n"
    "{ r6 = r2 ; r7 = r3 }\n"
    "{ r2 = #0 ; r3 = #0 }\n"
    "{ r4 = #0 ; r5 = #0 }\n"
    "{ trap0(#1) }\n"
    "{ p0 = cmp.eq(r0,#0) }\n"
    "{ if (!p0) jumpr r31 }\n"
    "{ r0 = r7 }\n"
    "{ r30 = #0 ; r31 = #0 }\n"
    "{ jump vitro_thread }\n"
    ".size vitro_clone,.-vitro_clone\n");

bool start_thread(void* stack, uint32_t stack_bytes, bool /*vectors*/, void (*run)(void*), void* argument) {
  // Memory, files and signals are shared: CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM.
  constexpr long kFlags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000;
  auto* start = static_cast<ThreadStart*>(stack);  // at the far end of it
  *start = {run, argument};
  return vitro_clone(kFlags, static_cast<unsigned char*>(stack) + stack_bytes, kClone, start) > 0;
}

void sleep_while(const uint32_t& word, uint32_t value) {
  constexpr long kWait = 0;
  linux_call(kFutex, reinterpret_cast<long>(&word), kWait, static_cast<long>(value));
}

void wake(uint32_t& word) {
  constexpr long kWake = 1, kAll = 0x7fffffff;
  linux_call(kFutex, reinterpret_cast<long>(&word), kWake, kAll);
}

void* map_shared(int fd, uint32_t bytes, bool writable) {
  constexpr long kRead = 1, kWrite = 2, kShared = 1;
  const long at = linux_call(kMmap2, 0, static_cast<long>(bytes), kRead | (writable ? kWrite : 0), kShared, fd, 0);
  return at < 0 && at > -4096 ? nullptr : reinterpret_cast<void*>(at);
}

void unmap(void* region, uint32_t bytes) { linux_call(kMunmap, reinterpret_cast<long>(region), static_cast<long>(bytes)); }

void sleep_us(uint32_t microseconds) {
  const long wanted[2] = {0, static_cast<long>(microseconds) * 1000};
  linux_call(kNanosleep, reinterpret_cast<long>(wanted), 0);
}

bool orphaned() {
  static const long parent = linux_call(kGetppid);
  return linux_call(kGetppid) != parent;
}

void leave(int code) {
  linux_call(kExitGroup, code);
  __builtin_unreachable();
}

// The regions are files that were inherited; their sizes are what the CPU says.
extern "C" [[noreturn]] void _start() {
  constexpr int kInboundFd = 3, kOutboundFd = 4;
  void* const first = map_shared(kInboundFd, kArenaStart, false);
  if (first == nullptr) leave(2);
  const auto& request = *static_cast<const Request*>(first);
  const uint32_t inbound_bytes = request.inbound_bytes, outbound_bytes = request.outbound_bytes;
  unmap(first, kArenaStart);
  orphaned();  // remembers who the parent is
  leave(serve({kInboundFd, inbound_bytes, kOutboundFd, outbound_bytes}));
}

}  // namespace vitro::hexagon
