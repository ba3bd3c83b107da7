// Traffic generators for flash models of either fidelity: cores that issue commands one after another and keep a number of
// them outstanding. The simulated requests pass through everything that those of an engine would.
#pragma once
#include <memory>
#include <vector>

#include "engine/base/config.hpp"
#include "hw_models/dram/flow.hpp"
#include "hw_models/event_loop.hpp"
#include "hw_models/storage.hpp"

namespace vitro::hw {

struct StorageProbe {
  bool sequential = false, write = false;
  Bytes block = 4 * KiB, range = 128 * MiB;        // addresses stay below `range`; a multiple of `block`
  std::uint32_t depth = 32;                        // outstanding commands of each core
  std::vector<Hertz> cores{{3e9}};                 // clocks of the issuing cores; sequential: each has its part of the range
  std::uint64_t warm_up = 4000, commands = 16000;  // not counted, then counted
  std::uint64_t seed = 1;
};

struct StorageProbeResult {
  double bytes_per_second = 0, commands_per_second = 0;
  Picoseconds mean{0}, p50{0}, p99{0}, p999{0}, most{0};  // from the start of issuing to completion
  std::uint32_t most_in_flight = 0;                       // commands of all cores together
  std::uint64_t hash = 0;                                 // of all completion times in order
};

// Runs `probe` on `model`, which lives on `loop`, from an idle device until its last command has ended.
StorageProbeResult run(StorageModel& model, EventLoop& loop, const StorageProbe& probe);

// A device of its own, built from the storage block of a device file (model, fidelity, parameters) beside a DRAM that is
// never the bottleneck. Throws ConfigError as a device file would.
class StorageBench {
 public:
  explicit StorageBench(const Node& storage, std::uint64_t seed = 1);
  EventLoop& loop() { return loop_; }
  FlowDram& dram() { return *dram_; }
  StorageModel& model() { return *model_; }

 private:
  EventLoop loop_;
  std::unique_ptr<Params> dram_params_, params_;
  std::unique_ptr<FlowDram> dram_;
  std::unique_ptr<StorageModel> model_;
};

// On a bench of its own.
StorageProbeResult run(const Node& storage, const StorageProbe& probe);

}  // namespace vitro::hw
