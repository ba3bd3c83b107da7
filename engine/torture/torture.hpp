// A case of a torture run: a configuration, a model, a timing and faults; what has to hold of it; and the fewest faults with
// which it does not.
#pragma once
#include <optional>
#include <string>

#include "engine/torture/random_model.hpp"
#include "engine/torture/subject.hpp"

namespace vitro {

struct TortureCase {
  std::uint64_t seed = 0;
  std::string machine = "virtual";   // virtual, sim or host
  Node experiment;                   // without its model
  std::optional<RandomModel> model;  // none: the experiment's own
  std::vector<std::uint64_t> adapters;  // of the model, by seed: "a0", "a1", ... in engine.lora
  std::optional<RandomModel> reward;    // that judges samples; none: the workload has no reward model, or one of its own
  std::uint64_t timing = 1;          // of the virtual machine
  std::optional<FaultPlan> faults;   // none: drawn by the seed, among the operations that the undisturbed run has
};
// Reads what to_json() writes (torture_case.cpp). Throws ConfigError.
TortureCase torture_case(const Node& json);
std::string to_json(const TortureCase& test);

struct TortureOptions {
  std::string folder;          // for models and packs; kept between cases
  MachineFactory machines;     // of sim and host
  double limit_s = 60;         // of one run
  std::function<std::unique_ptr<MachineHost>(std::unique_ptr<MachineHost>)> plant;  // Subject::plant
  ShadowRules::Between plant_in_cache;  // Subject::plant_in_cache
};

// The case on its machine, without faults. Writes its models and adapters if the folder lacks them.
Subject subject_of(const TortureCase& test, const TortureOptions& options);

// Which of the invariants of run_case() does not hold; "" when all do.
std::string violation(const Observation& expected, const Observation& seen);

struct Verdict {
  enum class Kind : std::uint8_t {
    untouched,  // no fault struck
    recovered,  // the tokens of the undisturbed run
    failed,     // an error that says why, and an engine that goes on
    refused,    // no such configuration
    wrong,
  };
  Kind outcome = Kind::untouched;
  std::string why;     // of wrong: what does not hold; of failed and refused: the message
  TortureCase test;    // with its faults: a replay
  FaultTally tally;
  ShadowCounts seen;   // of both runs
};
std::string_view to_string(Verdict::Kind outcome);

// Invariants: the tokens are those of the undisturbed run, or there is an error that names its cause; faults that lose nothing change
// nothing; no process dies and none hangs; every operation is joined; memory and blocks are returned; caches and residency agree with the
// shadow model (engine/torture/shadow); the same request afterwards, all well again, has the tokens of the undisturbed run.
Verdict run_case(const TortureCase& test, const TortureOptions& options);

// The fewest faults, and each on as few operations, with which the outcome is still wrong. Requires: it is.
TortureCase shrink(const TortureCase& test, const TortureOptions& options);

}  // namespace vitro
