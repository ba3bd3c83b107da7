// A schedule of faults: which operations of a machine go wrong, and how. A file can hold it, a seed can draw it, and either way it happens
// again. What carries it out is FaultyMachine (faulty_machine.hpp).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro {

// What faults count: operations of one sort, in order of submission, from 0.
enum class FaultTarget : std::uint8_t { read, write, launch, load, lease };
inline constexpr std::size_t kFaultTargets = 5;
std::string_view to_string(FaultTarget target);

enum class FaultKind : std::uint8_t {
  read_error,       // nothing is read, and the status says so
  short_read,       // part of it is read
  corrupt_read,     // all is read, one byte of it wrongly, and nothing says so
  latency,          // a read completes late
  stall,            // reads and writes that are submitted from then on complete late, for a while
  reorder,          // reads complete in another order
  queue_full,       // reads wait for the ones before them to complete before they are submitted
  storage_lost,     // reads fail for a while, then the storage is there again
  write_error,      // nothing is written
  no_space,         // nothing is written, for want of room
  launch_error,     // a chain or graph does not run
  slow_launch,      // ... completes late
  unit_dies,        // ... does not run, and nothing does on its unit from then on
  unit_hangs,       // the same, and the unit says so only after a time-out
  garbage,          // ... answers with neurons, experts or tokens that there are not
  throttle,         // everything on the unit completes late from then on
  graph_error,      // a graph does not load
  lease_error,      // a lease, or a commit of pages, is refused
  memory_pressure,  // the DRAM budget is smaller for a while
};
inline constexpr std::size_t kFaultKinds = 19;
std::string_view to_string(FaultKind kind);
std::vector<std::string> fault_names();
FaultTarget target_of(FaultKind kind);
// Whether a run has to have its tokens all the same: nothing is lost, it only takes longer or comes in another order.
bool is_harmless(FaultKind kind);

inline constexpr std::uint64_t kFromThenOn = ~std::uint64_t{0};

struct Fault {
  FaultKind kind = FaultKind::read_error;
  std::uint64_t at = 0;     // the first operation of its target that it hits ...
  std::uint64_t count = 1;  // ... and of how many that follow one another
  Picoseconds delay{0};     // of what completes late
  Bytes bytes = 0;          // short_read: that are read; corrupt_read: which one is wrong, modulo the length; memory_pressure: taken away
  std::string unit;         // only operations of this unit; empty: of any
  friend bool operator==(const Fault&, const Fault&) = default;
};

struct FaultPlan {
  std::uint64_t seed = 0;  // of what a fault draws by itself: the order of reorder
  std::vector<Fault> faults;
  bool checksums = true;  // what is read is held against checksums of what was written (engine/faults/checked_storage.hpp)
  friend bool operator==(const FaultPlan&, const FaultPlan&) = default;
};

// How many operations of each target a run has: faults are drawn among them.
using FaultTargets = std::array<std::uint64_t, kFaultTargets>;

struct FaultDraw {
  std::uint64_t seed = 0;
  std::uint32_t faults = 1;
  std::vector<FaultKind> kinds;    // empty: all
  FaultTargets among{};            // kinds whose target has no operation are not drawn
  Picoseconds delay{0};            // delays are drawn up to this
  Bytes bytes = 0;                 // of DRAM: memory_pressure takes up to this
  std::vector<std::string> units;  // whose operations may go wrong
};
FaultPlan draw_faults(const FaultDraw& draw);

// `faults:` of an experiment, or a file with what stands below it: {entries: [{fault, at, count, delay, bytes, unit}], seed, checksums},
// or {seed, draw: 5, within: 1000, kinds: [...], delay, bytes, units, checksums}, which draws. Throws ConfigError.
FaultPlan read_faults(Reader reader);
// The first form, as JSON: read_faults() gives the same plan.
std::string to_json(const FaultPlan& plan);

}  // namespace vitro
