// Probes: microbenchmarks of a device, asked through simulated requests on a fresh SimMachine. A probe knows no published
// value; experiments/papers/map.yaml says which probe, with which arguments, answers which published figure.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro::sim {

struct ProbeResult {
  std::vector<std::pair<std::string, double>> measures;  // SI base units: ("bytes_per_second", 43.9e9)
  std::vector<std::string> assumed_parameters;           // dotted names of those that the machine read
  std::string event_hash;
};

struct ProbeInfo {
  std::string name, description;
};
std::vector<ProbeInfo> probes();

// `device` is a device file, `args` a map with the probe's keys (docs/guide/characterize.md). Throws ConfigError on a probe, a key
// or a value that does not exist. SystemC elaborates once: one call per process, or a simulation context per call.
ProbeResult run_probe(const Node& device, const std::string& probe, const Node& args);

}  // namespace vitro::sim
