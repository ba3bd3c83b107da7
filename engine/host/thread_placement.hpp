// Where a thread runs and how soon it is woken. Both are best effort: a sandbox may refuse, and the run goes on.
#pragma once
#include <pthread.h>
#include <sched.h>

namespace vitro {

bool pin_thread(pthread_t thread, int os_cpu);

// While it lives, the calling thread runs on one CPU and is scheduled with a short time slice, so that a wake-up
// interrupts a compute-bound worker on the same CPU. Restores both.
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
