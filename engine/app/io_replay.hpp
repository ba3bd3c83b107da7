// Issues the reads of a recording again, on any machine: what would this workload's I/O cost on that flash?
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/app/machines.hpp"

namespace vitro {

struct IoReplay {
  std::string recording;  // written by engine.record
  MachineRequest machine;
  std::string file;         // to read from; empty: a file that never existed (sim only)
  std::uint32_t depth = 1;  // reads in flight, each issued when one before it ends; or
  bool paced = false;       // each at its recorded time, whatever is still in flight
};

// {"reads", "bytes", "duration_s", "gb_per_s", "latency_us": {"mean", "p50", "p90", "p99"}, "storage_path"}.
// Throws ConfigError for a recording without reads or a file that is too short, RunError when a read fails.
nlohmann::ordered_json replay_io(const IoReplay& replay, const MachineFactory& machines);

}  // namespace vitro
