#include "engine/kernels/hexagon/hvx_worker/system.hpp"

#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {
namespace {

// Linux's generic system call numbers for 32-bit machines; arguments in r0 to r5, the number in r6.
enum : long { kExitGroup = 94, kFutex = 98, kNanosleep = 101, kGetppid = 173, kMunmap = 215, kClone = 220, kMmap2 = 222 };

long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long r6 __asm__("r6") = number;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
  return r0;
}

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
  call(kFutex, reinterpret_cast<long>(&word), kWait, static_cast<long>(value));
}

void wake(uint32_t& word) {
  constexpr long kWake = 1, kAll = 0x7fffffff;
  call(kFutex, reinterpret_cast<long>(&word), kWake, kAll);
}

void* map_shared(int fd, uint32_t bytes, bool writable) {
  constexpr long kRead = 1, kWrite = 2, kShared = 1;
  const long at = call(kMmap2, 0, static_cast<long>(bytes), kRead | (writable ? kWrite : 0), kShared, fd, 0);
  return at < 0 && at > -4096 ? nullptr : reinterpret_cast<void*>(at);
}

void unmap(void* region, uint32_t bytes) { call(kMunmap, reinterpret_cast<long>(region), static_cast<long>(bytes)); }

void sleep_us(uint32_t microseconds) {
  const long wanted[2] = {0, static_cast<long>(microseconds) * 1000};
  call(kNanosleep, reinterpret_cast<long>(wanted), 0);
}

bool orphaned() {
  static const long parent = call(kGetppid);
  return call(kGetppid) != parent;
}

void leave(int code) {
  call(kExitGroup, code);
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
