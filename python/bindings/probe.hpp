// One microbenchmark of engine/host/probes/probe.hpp, asked for and answered as JSON text.
#pragma once
#include <string>

namespace vitro {

// kind: "kernel", "phase", "hand_off", "storage" (these also on machine: sim, with `device`), "reads", "load_latency", "clock",
// "call_building" (the real machine alone). Throws ConfigError for unknown kinds and keys. Once per process where it simulates.
std::string run_probe_text(const std::string& kind, const std::string& args);

}  // namespace vitro
