// Machine: everything a policy may touch, handed in by constructor. A policy can not tell which machine it is on.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/clock.hpp"
#include "engine/machine/compute_unit.hpp"
#include "engine/machine/memory.hpp"
#include "engine/machine/storage.hpp"
#include "engine/machine/task_scope.hpp"
#include "engine/machine/trace.hpp"

namespace vitro {

struct Machine {
  Executor& executor;
  Clock& clock;
  std::vector<ComputeUnit*> units;  // CPU cores first, fastest first, then accelerators
  Storage& storage;
  Memory& memory;
  TraceSink& trace;
  std::uint64_t seed = 0;  // of everything drawn in this run
};

// What the machine itself knows after a run; null where nothing measured it.
struct MachineReport {
  std::optional<double> io_share, cpu_utilization, dram_bandwidth_gb_per_s, energy_j, peak_power_w;
  std::vector<std::pair<std::string, double>> energy_parts_j;  // of energy_j: "base", "units", "dram", "flash"; sums to it
  std::vector<std::pair<std::string, double>> energy_by_unit_j;  // of energy_j: each unit by its name, "dram", "flash", "base"
  std::vector<std::pair<std::string, double>> energy_by_kind_j;  // the same with units together: "cores", "npu", "ane", "gpu"
  std::vector<std::pair<std::string, double>> energy_causes_j;  // of energy_j: "compute", "communication", "rest"; sums to it
  std::vector<std::pair<std::string, double>> communication_parts_j;  // "rows", "switches", "weights", "activations", "flash"; sums to it
  std::optional<double> cpu_busy_s, cpu_cycles;  // of all cores together; cycles at the clock that each has by its device file
  std::optional<double> flash_programmed_bytes;  // sim: that cells are programmed with for what the run wrote, moves inside included
  std::optional<double> flash_rated_bytes;       // sim: that a host may write over the device's life
  std::string event_hash;                        // sim: of all events; host: empty
  std::vector<std::string> assumed_parameters;   // sim: "ufs.map_cache_miss" ... that the run really read
  std::vector<std::string> unpriced_calls;       // sim: variants priced by roofline, without a table
  std::vector<std::pair<std::string, std::uint64_t>> counts;  // sim: "events", "runs", "launches", "reads", "writes", "posts"
  std::vector<std::string> notes;                             // "io_uring is not available: pread", "2 of 6 cores"
};

// A machine with its lifetime: owns workers, queues and arenas, and drives its executor.
class MachineHost {
 public:
  virtual ~MachineHost() = default;
  virtual Machine& machine() = 0;
  virtual std::string_view kind() const = 0;  // "host", "sim", "virtual"
  // Runs the executor until `task` is done, then rethrows its error if it has one. Called once per simulation.
  virtual void run(Task<void> task) = 0;
  // Metrics over [begin, end], the decode part of a run.
  virtual MachineReport report(Picoseconds begin, Picoseconds end) = 0;
  // Energy of all that was drawn in a window that has passed; none where nothing measures it.
  virtual std::optional<double> joules(Picoseconds /*begin*/, Picoseconds /*end*/) { return std::nullopt; }
};

}  // namespace vitro
