// The worker's operating system on a phone: QuRT, entered by FastRPC. This file in place of system.cpp and freestanding.cpp makes the
// worker a module of the DSP, libvitro_hexagon_skel.so (docs/design/hexagon.md). It never ran on a phone: what is checked here is that it
// compiles, and what it does in the emulator where functions of the same names stand in for QuRT's (tests/engine/kernels/hexagon/phone).
//
// Of the Hexagon SDK (its headers are public in several repositories): qurt.h, HAP_mem.h, HAP_power.h, remote.h, AEEStdErr.h. Methods and
// their arguments are those of a module that Qualcomm's compiler of interfaces makes: 0 opens, 1 closes, others are the interface's.
#include <AEEStdErr.h>
#include <HAP_mem.h>
#include <HAP_power.h>
#include <qurt.h>
#include <remote.h>

#include "engine/kernels/hexagon/hvx_worker/system.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {
namespace {

// At the far end of a thread's stack.
struct alignas(kVectorBytes) ThreadStart {
  void (*run)(void*);
  void* argument;
  bool vectors;
};

void thread_begins(void* place) {
  const auto& start = *static_cast<const ThreadStart*>(place);
  if (start.vectors && qurt_hvx_lock(QURT_HVX_MODE_128B) != QURT_EOK) leave(4);
  start.run(start.argument);
  if (start.vectors) qurt_hvx_unlock();
  qurt_thread_exit(QURT_EOK);
}

bool create(qurt_thread_t& id, void* stack, uint32_t stack_bytes, bool vectors, void (*run)(void*), void* argument) {
  auto* const start = static_cast<ThreadStart*>(stack);
  *start = {run, argument, vectors};
  qurt_thread_attr_t attributes;
  qurt_thread_attr_init(&attributes);
  qurt_thread_attr_set_stack_addr(&attributes, start + 1);
  qurt_thread_attr_set_stack_size(&attributes, stack_bytes - sizeof(ThreadStart));
  qurt_thread_attr_set_priority(&attributes, static_cast<unsigned short>(qurt_thread_get_priority(qurt_thread_get_id())));
  return qurt_thread_create(&id, &attributes, thread_begins, start) == QURT_EOK;
}

// The loop has a thread of its own: a kernel's frame has up to 17 KiB, and FastRPC's threads have stacks of 16 KiB, if nobody asks for
// others. One at a time: a session has one pair of regions.
alignas(kVectorBytes) unsigned char loop_stack[256 * 1024];
uint32_t loops = 0;
struct {
  ServeCall call;
  int result;
} loop;

void run_loop(void*) { loop.result = serve(loop.call); }

int serve_on_a_thread(const ServeCall& call) {
  if (raise(loops) != 0) {
    raise(loops, static_cast<uint32_t>(-1));
    return AEE_EITEMBUSY;
  }
  HAP_power_request_t power{};
  power.type = HAP_power_set_HVX;
  power.hvx.power_up = 1;
  qurt_thread_t id{};
  int result = HAP_power_set(&loop, &power);
  loop.call = call;
  if (result == AEE_SUCCESS) {
    result = AEE_ENOMEMORY;
    if (create(id, loop_stack, sizeof loop_stack, true, run_loop, nullptr)) {
      int status = 0;
      qurt_thread_join(id, &status);
      result = loop.result == 0 ? AEE_SUCCESS : loop.result == 1 ? AEE_EVERSIONNOTSUPPORT : AEE_EMMAP;
    }
    power.hvx.power_up = 0;
    HAP_power_set(&loop, &power);
  }
  raise(loops, static_cast<uint32_t>(-1));
  return result;
}

}  // namespace

bool start_thread(void* stack, uint32_t stack_bytes, bool vectors, void (*run)(void*), void* argument) {
  qurt_thread_t id{};
  return create(id, stack, stack_bytes, vectors, run, argument);
}

void sleep_while(const uint32_t& word, uint32_t value) { qurt_futex_wait(const_cast<uint32_t*>(&word), static_cast<int>(value)); }

void wake(uint32_t& word) {
  constexpr int kAll = 0x7fffffff;
  qurt_futex_wake(&word, kAll);
}

// Of less than 2 GiB, which HAP_mmap has as its limit; the CPU's buffers have, too.
void* map_shared(int fd, uint32_t bytes, bool writable) {
  void* const at = HAP_mmap(nullptr, static_cast<int>(bytes), HAP_PROT_READ | (writable ? HAP_PROT_WRITE : 0), 0, fd, 0);
  return reinterpret_cast<intptr_t>(at) == -1 ? nullptr : at;
}

void unmap(void* region, uint32_t bytes) { HAP_munmap(region, static_cast<int>(bytes)); }

void sleep_us(uint32_t microseconds) { qurt_timer_sleep(microseconds); }

bool orphaned() { return false; }  // a session ends with its client

// An exception ends the process, and with it the CPU's invocation.
void leave(int) { __builtin_trap(); }

}  // namespace vitro::hexagon

extern "C" [[gnu::visibility("default")]] int vitro_hexagon_skel_handle_invoke(remote_handle64, uint32_t scalars, remote_arg* args) {
  using vitro::hexagon::ServeCall;
  switch (REMOTE_SCALARS_METHOD(scalars)) {
    case 0:  // in: the length of a name, the name; out: a handle
      if (scalars != REMOTE_SCALARS_MAKEX(0, 0, 2, 0, 0, 1)) return AEE_EBADPARM;
      args[2].h64 = 1;
      return AEE_SUCCESS;
    case 1:  // in: a handle
      return scalars == REMOTE_SCALARS_MAKEX(0, 1, 0, 0, 1, 0) ? AEE_SUCCESS : AEE_EBADPARM;
    case vitro::hexagon::kServe:
      if (scalars != REMOTE_SCALARS_MAKE(vitro::hexagon::kServe, 1, 0) || args[0].buf.nLen < sizeof(ServeCall)) return AEE_EBADPARM;
      return vitro::hexagon::serve_on_a_thread(*static_cast<const ServeCall*>(args[0].buf.pv));
    default:
      return AEE_EUNSUPPORTED;
  }
}
