// Microbenchmarks through the machine interface that policies use, so that one probe runs on the real machine and on a model of it: the
// first to calibrate the second, the second to see what the calibration left over. A probe moves operands of its own and
// knows no policy. Each runs once per MachineHost.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/machine/machine.hpp"

namespace vitro {

// What one call is made of. `context` is of attention alone: the positions that each row sees.
struct CallShape {
  Op op = ops::Matmul{};  // which one: its parameters are the probe's
  VariantId variant{};
  Format format = Format::f32;  // of the weights, or of keys and values
  Layout layout = Layout::rows;
  std::uint32_t rows = 0, columns = 0, batch = 1, context = 0;  // attention: KV heads, and query heads of each (0: the probe's own)
  bool scattered = false;                                       // matmul, accumulate: the rows stand in any order, as neurons in a cache do
};

struct KernelProbe {
  CallShape shape;
  // Bytes over which the weights rotate before they come round again; 0: one copy. The units share the rows of each copy.
  Bytes working_set = 0;
  // Before each call a product over this many rows of f16, as small operators stand between large ones in a model: it takes
  // the first-level caches for itself. Its time is in the result: a probe of that product says how much. 0: none.
  std::uint32_t flush_rows = 0;
  std::uint32_t rounds = 1;       // over the working set, timed as one
  std::uint32_t repetitions = 5;  // after one that is not counted
};

struct KernelTimes {
  std::vector<double> seconds;  // per call (of all units together), one for each repetition
  WorkCounts counts;            // of one call, all units together; elementwise and conversions as count() has them
  std::uint64_t copies = 0;
  Bytes working_set = 0;
};
// Throws ConfigError for a shape that the kernels have no form of.
KernelTimes probe_kernel(MachineHost& host, const KernelProbe& probe);

struct DispatchProbe {
  Picoseconds gap{0};  // between the end of a round and the next submission
  std::uint32_t rounds = 200;
  std::uint32_t skip = 0;  // this many units get nothing: on host the first one shares its CPU with the policy
};
// Seconds from the submission of one small call to every unit that is asked until the last answer is seen, one for each round.
// Throws ConfigError when all are skipped.
std::vector<double> probe_dispatch(MachineHost& host, const DispatchProbe& probe);

struct StorageProbe {
  std::string file;  // empty: a file that never existed (sim)
  Bytes block = kPageSize, range = GiB;
  Pattern pattern = Pattern::random;
  std::uint32_t depth = 1, reads = 1000;
  std::uint64_t seed = 1;
  bool fresh_pages = false;  // each read goes to pages of a larger range that others gave back before, as those of a mapping do
};

struct StorageTimes {
  double seconds = 0;             // from the first submission to the last completion
  std::vector<double> latencies;  // seconds, in the order of completion
};
// Throws RunError when a read fails, ConfigError when the file is shorter than the range.
StorageTimes probe_storage(MachineHost& host, const StorageProbe& probe);

}  // namespace vitro
