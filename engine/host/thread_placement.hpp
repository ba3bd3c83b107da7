// Where a thread runs and how soon it is woken. Both are best effort: a sandbox may refuse, and the run goes on.
#pragma once
#include <pthread.h>
#include <sched.h>

namespace vitro {

bool pin_thread(pthread_t thread, int os_cpu);

// Gives the calling worker thread a time slice between the policy thread's and that of other processes.
void become_worker();

// For polling loops. Never the scheduler's yield: beside another process on the same CPU that gives away a whole time
// slice, milliseconds, where a dispatch was expected within microseconds.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");  // the instruction: a hint to the core, not to the scheduler
#endif
}

// While it lives, the calling thread runs on one CPU and is scheduled with a short time slice, or before other real-time threads of
// its process, so that a wake-up interrupts a compute-bound worker on the same CPU. Restores all.
class PolicyThreadPlacement {
 public:
  explicit PolicyThreadPlacement(int os_cpu);
  ~PolicyThreadPlacement();
  PolicyThreadPlacement(const PolicyThreadPlacement&) = delete;
  PolicyThreadPlacement& operator=(const PolicyThreadPlacement&) = delete;

 private:
  cpu_set_t before_{};
  bool pinned_ = false;
};

}  // namespace vitro
