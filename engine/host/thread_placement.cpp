#include "engine/host/thread_placement.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace vitro {
namespace {

// The kernel's struct sched_attr, version 0; the C library of Debian 12 does not declare it.
struct SchedAttr {
  std::uint32_t size = sizeof(SchedAttr);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};

constexpr std::uint64_t kPolicySliceNs = 100'000;  // the shortest that Linux accepts
// Longer, so that the policy still interrupts a worker; shorter than other processes' (about 3 ms), so that a dispatch does
// not wait for one of theirs.
constexpr std::uint64_t kWorkerSliceNs = 400'000;

// Among real-time threads the policy's comes first: one of equal priority would wait until the worker on its CPU has nothing to do.
void come_first(bool first) {
  SchedAttr attr;
  if (::syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0 || attr.policy != SCHED_FIFO) return;
  attr.size = sizeof attr;
  attr.priority += first ? 1 : -1;
  ::syscall(SYS_sched_setattr, 0, &attr, 0);
}

// Linux 6.12 and later take a slice for normal threads, and a waking thread with a shorter slice preempts at once
// instead of waiting for the running one to use up its own. 0 restores the default; older kernels ignore it.
void set_slice_ns(std::uint64_t slice_ns) {
  SchedAttr attr;
  if (::syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0 || attr.policy != SCHED_OTHER) return;
  attr.size = sizeof attr;
  attr.runtime = slice_ns;
  ::syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace

bool pin_thread(pthread_t thread, int os_cpu) {
  if (os_cpu < 0 || os_cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(os_cpu, &set);
  return ::pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

void become_worker() { set_slice_ns(kWorkerSliceNs); }

PolicyThreadPlacement::PolicyThreadPlacement(int os_cpu) {
  pinned_ = ::pthread_getaffinity_np(::pthread_self(), sizeof before_, &before_) == 0 && pin_thread(::pthread_self(), os_cpu);
  set_slice_ns(kPolicySliceNs);
  come_first(true);
}

PolicyThreadPlacement::~PolicyThreadPlacement() {
  come_first(false);
  set_slice_ns(0);
  if (pinned_) ::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_);
}

}  // namespace vitro
