// CpuFallback: the CPU's cores as they run what an accelerator's system software gave back (graphs above a size limit).
#pragma once
#include <memory>
#include <vector>

#include "hw_models/callback.hpp"
#include "hw_models/compute.hpp"

namespace vitro {
struct KernelCall;
}

namespace vitro::sim {

class SimUnit;

// Cuts a call into even shares for the cores of the fastest class, as a thread pool of the system would, and queues them
// behind whatever those cores do: a fallback takes them from the engine's own kernels. The effect of the call stays with
// the accelerator's unit. One per accelerator, since each runs one call at a time.
class CpuFallback {
 public:
  explicit CpuFallback(const std::vector<std::unique_ptr<SimUnit>>& units) : units_(units) {}

  bool possible() const;  // the machine has CPU cores among its units
  // `done` runs as an event when the last share has ended. Requires: possible(); the call before has ended.
  void run(const KernelCall& call, hw::Callback done);

 private:
  std::vector<SimUnit*> cores() const;

  const std::vector<std::unique_ptr<SimUnit>>& units_;
  std::size_t left_ = 0;
  hw::Callback done_;
};

}  // namespace vitro::sim
