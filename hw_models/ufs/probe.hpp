// Traffic generators for flash models of either fidelity: cores that issue commands one after another and keep a number of
// them outstanding. The simulated requests pass through everything that those of an engine would.
#pragma once
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "hw_models/ufs/storage.hpp"

namespace vitro::hw {

class EventLoop;

struct StorageProbe {
  bool sequential = false, write = false;
  Bytes block = 4 * KiB, range = 128 * MiB;  // addresses stay below `range`; a multiple of `block`
  std::uint32_t depth = 32;                  // outstanding commands of each core
  std::vector<Hertz> cores{{3e9}};           // clocks of the issuing cores; sequential: each has its part of the range
  std::uint64_t warm_up = 4000, commands = 16000;  // not counted, then counted
  std::uint64_t seed = 1;
};

struct StorageProbeResult {
  double bytes_per_second = 0, commands_per_second = 0;
  Picoseconds mean{0}, p50{0}, p99{0}, p999{0}, most{0};  // from the start of issuing to completion
  std::uint32_t most_in_flight = 0;                       // commands of all cores together
  std::uint64_t hash = 0;                                 // of all completion times in order
};

// Runs `probe` on `model`, which lives on `loop`, from an idle device to its last command.
StorageProbeResult run(StorageModel& model, EventLoop& loop, const StorageProbe& probe);

// The same on a device of its own, built from the storage block of a device file (model, fidelity, parameters) beside a DRAM
// that is never the bottleneck. Throws ConfigError as a device file would.
StorageProbeResult run(const Node& storage, const StorageProbe& probe);

}  // namespace vitro::hw
