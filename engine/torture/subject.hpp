// One run of one configuration on a machine that goes wrong, and what was left afterwards.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/app/experiment.hpp"
#include "engine/app/machines.hpp"
#include "engine/faults/fault_state.hpp"
#include "engine/torture/shadow/shadow.hpp"
#include "engine/torture/shadow/shadow_rules.hpp"

namespace vitro {

using Tokens = std::vector<std::vector<std::int32_t>>;  // by sequence

// What came of it. An error is one that a user would read.
struct Observation {
  enum class End : std::uint8_t {
    tokens,   // the run has its tokens
    failed,   // RunError, or ConfigError for a budget that turned out to be too small
    refused,  // ConfigError before the first operation: no machine of this kind runs such a configuration
    unclear,  // another exception: our bug
    died,     // the process did
    hung,     // it did not end in time
  };
  End end = End::tokens;
  Tokens tokens;
  std::string error;
  // The same request once more, but with the likeliest tokens, when nothing went wrong any more: by the same decoder, or by a new one where
  // it could not be loaded.
  // Nothing: the machine runs once (sim).
  std::optional<Tokens> again;
  std::string again_error;
  FaultTally tally;
  std::vector<std::string> losses;  // what was not returned: bytes, blocks, operations
  std::vector<std::string> shadow;  // where caches and residency differ from the shadow model
  ShadowCounts seen;                // by the shadow model
  friend bool operator==(const Observation&, const Observation&) = default;
};
std::string_view to_string(Observation::End end);
nlohmann::ordered_json to_json(const Observation& observation);
Observation observation_of(const nlohmann::ordered_json& json);

struct Subject {
  Node experiment;  // as read_experiment() takes it; its `faults` are not looked at
  MachineFactory machines;
  FaultPlan faults;
  std::string cache_dir;
  bool once = false;  // the machine runs once
  // Tests put defects of the engine in place by it: a machine between the policy and the one that goes wrong.
  std::function<std::unique_ptr<MachineHost>(std::unique_ptr<MachineHost>)> plant;
  ShadowRules::Between plant_in_cache;  // likewise, between a cache and its rule of eviction
};

// Never throws for what the run does. Our own checks abort the process: see isolated().
Observation observe(const Subject& subject);
// In a child process, whose death or time-out is an observation, too.
Observation isolated(const Subject& subject, double limit_s);

// Units and flash that take random times, so that every seed is another order of events; cores cpu0 ..., others by their names, of which
// "hexagon" has the memory and the formats of the real one.
MachineFactory virtual_machines(std::uint64_t timing);

}  // namespace vitro
