// QuRT and FastRPC's end on the DSP for a phone's module in qemu-hexagon: functions of their names over Linux's system calls, and a
// beginning that opens the module, calls its method as kCallFd says, and closes it. What it shows: system_qurt.cpp, linked with the rest of
// the worker as on a phone, serves requests. What it does not: that QuRT's own functions do what is assumed of them here.
#include <AEEStdErr.h>
#include <HAP_mem.h>
#include <HAP_power.h>
#include <qurt.h>
#include <remote.h>

#include "engine/kernels/hexagon/hvx_worker/linux_call.hpp"
#include "tests/engine/kernels/hexagon/phone/emulated_call.hpp"

extern "C" int vitro_hexagon_skel_handle_invoke(remote_handle64 handle, uint32_t scalars, remote_arg* args);

namespace {

using namespace vitro::hexagon;

[[noreturn]] void end(int code) {
  linux_call(kExitGroup, code);
  __builtin_unreachable();
}

// Threads by their numbers, from 1; 0 is the one that FastRPC calls the module on. Who a thread is says its stack.
constexpr unsigned int kThreads = 16;
struct Thread {
  const unsigned char *first, *last;  // of its stack
  unsigned short priority;
  bool vectors;
  int ended, status;
  void (*entry)(void*);
  void* argument;
} threads[kThreads];
unsigned int created = 0;
bool vectors_have_power = false;

constexpr unsigned short kCallersPriority = 192;

}  // namespace

extern "C" {

unsigned int qurt_thread_get_id(void) {
  const auto* here = static_cast<const unsigned char*>(__builtin_frame_address(0));
  for (unsigned int i = 1; i <= created; ++i) {
    if (threads[i].first <= here && here < threads[i].last) return i;
  }
  return 0;
}

int qurt_thread_get_priority(qurt_thread_t id) { return id == 0 ? kCallersPriority : threads[id].priority; }

void qurt_thread_exit(int status) {
  Thread& self = threads[qurt_thread_get_id()];
  self.status = status;
  __atomic_store_n(&self.ended, 1, __ATOMIC_RELEASE);
  qurt_futex_wake(&self.ended, 1);
  linux_call(kExit, 0);
}

// clone() returns twice: in the new thread on its own, empty stack.
long phone_clone(long flags, void* stack, long number, Thread* thread);
[[noreturn]] void phone_thread(Thread* thread) {
  thread->entry(thread->argument);
  end(101);  // QuRT's threads end by qurt_thread_exit
}
__asm__(
    ".globl phone_clone\n"
    ".p2align 4\n"
    ".type phone_clone,@function\n"
    "phone_clone:\n"
    "{ r6 = r2 ; r7 = r3 }\n"
    "{ r2 = #0 ; r3 = #0 }\n"
    "{ r4 = #0 ; r5 = #0 }\n"
    "{ trap0(#1) }\n"
    "{ p0 = cmp.eq(r0,#0) }\n"
    "{ if (!p0) jumpr r31 }\n"
    "{ r0 = r7 }\n"
    "{ r30 = #0 ; r31 = #0 }\n"
    "{ jump phone_thread }\n"
    ".size phone_clone,.-phone_clone\n");

int qurt_thread_create(qurt_thread_t* id, qurt_thread_attr_t* attr, void (*entry)(void*), void* argument) {
  if (attr->stack_addr == nullptr || attr->stack_size < 4096 || attr->priority == 0 || attr->priority > 254) return -1;
  if (created + 1 == kThreads) return -1;
  constexpr long kFlags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000;  // CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM
  auto* stack = static_cast<unsigned char*>(attr->stack_addr);
  *id = created + 1;
  threads[*id] = {stack, stack + attr->stack_size, attr->priority, false, 0, 0, entry, argument};
  ++created;  // by one thread only: the loop's, once it runs
  return phone_clone(kFlags, stack + attr->stack_size, kClone, &threads[*id]) > 0 ? QURT_EOK : -1;
}

int qurt_thread_join(unsigned int id, int* status) {
  while (__atomic_load_n(&threads[id].ended, __ATOMIC_ACQUIRE) == 0) qurt_futex_wait(&threads[id].ended, 0);
  *status = threads[id].status;
  return QURT_EOK;
}

int qurt_futex_wait(void* word, int value) { return static_cast<int>(linux_call(kFutex, reinterpret_cast<long>(word), 0, value)); }
int qurt_futex_wake(void* word, int most) { return static_cast<int>(linux_call(kFutex, reinterpret_cast<long>(word), 1, most)); }

int qurt_timer_sleep(unsigned long long microseconds) {
  const long wanted[2] = {0, static_cast<long>(microseconds) * 1000};
  return static_cast<int>(linux_call(kNanosleep, reinterpret_cast<long>(wanted), 0));
}

int qurt_hvx_lock(qurt_hvx_mode_t mode) {
  Thread& self = threads[qurt_thread_get_id()];
  if (mode != QURT_HVX_MODE_128B || !vectors_have_power || self.vectors) return -1;
  self.vectors = true;
  return QURT_EOK;
}

int qurt_hvx_unlock(void) {
  threads[qurt_thread_get_id()].vectors = false;
  return QURT_EOK;
}

int HAP_power_set(void* context, HAP_power_request_t* request) {
  if (context == nullptr || request->type != HAP_power_set_HVX) return AEE_EBADPARM;
  vectors_have_power = request->hvx.power_up != 0;
  return AEE_SUCCESS;
}

void* HAP_mmap(void* addr, int len, int prot, int flags, int fd, long offset) {
  if (addr != nullptr || len <= 0 || flags != 0 || offset != 0) return reinterpret_cast<void*>(-1);
  constexpr long kShared = 1;
  const long at = linux_call(kMmap2, 0, len, prot, kShared, fd, 0);
  return reinterpret_cast<void*>(at < 0 && at > -4096 ? -1 : at);
}

int HAP_munmap(void* addr, int len) { return static_cast<int>(linux_call(kMunmap, reinterpret_cast<long>(addr), len)); }

[[noreturn]] void _start() {
  constexpr int kPage = 4096;
  void* const place = HAP_mmap(nullptr, kPage, HAP_PROT_READ | HAP_PROT_WRITE, 0, vitro::test::kCallFd, 0);
  if (reinterpret_cast<long>(place) == -1) end(102);
  auto& asked = *static_cast<vitro::test::EmulatedCall*>(place);
  uint32_t name_bytes = 6;
  char name[] = "vitro";
  remote_arg open[3] = {};
  open[0].buf = {&name_bytes, sizeof name_bytes};
  open[1].buf = {name, name_bytes};
  if (vitro_hexagon_skel_handle_invoke(0, REMOTE_SCALARS_MAKEX(0, 0, 2, 0, 0, 1), open) != AEE_SUCCESS) end(103);
  remote_arg method{};
  method.buf = {asked.in, asked.in_bytes};
  asked.result = vitro_hexagon_skel_handle_invoke(open[2].h64, asked.scalars, &method);
  __atomic_store_n(&asked.returned, 1u, __ATOMIC_RELEASE);
  remote_arg close{};
  close.h64 = open[2].h64;
  end(vitro_hexagon_skel_handle_invoke(open[2].h64, REMOTE_SCALARS_MAKEX(0, 1, 0, 0, 1, 0), &close) == AEE_SUCCESS ? 0 : 104);
}

}  // extern "C"
