// What memory.budget an experiment needs at least: found by trying, without computing anything.
#pragma once
#include <optional>
#include <string>

#include "engine/app/experiment.hpp"
#include "engine/app/machines.hpp"

namespace vitro {

struct SmallestBudget {
  Bytes tried = 0;        // what does not suffice: memory.budget, or what the machine has
  Bytes budget = 0;       // what does; one granule less does not
  Bytes granule = 0;      // in which budgets were tried: a page, or from 64 MiB on a MiB
  bool at_least = false;  // only the set-up and the first tokens were tried: a run may need more
  // memory.ffn_in_dram is too little, in a memory that would do: the share, to a thousandth, that works. `budget` and `granule` are 0.
  std::optional<double> share;
};

// Puts the experiment's engine together on a virtual machine with phantom memory and the real one's units, loads it, and generates all
// tokens, or the first of many, with work that takes no time; again and again with another budget, by halves. Nothing is computed, read or
// written, and no accelerator is started. A text that ends before workload.output_tokens may need less.
//
// Saved sequences are read and none is written; a reward model of workload.scaling counts. None: the experiment's own budget works there,
// so that something else is the matter; or no budget does; or workload has no tokens; or an accelerator of the host shares its memory with
// the engine in ways of its own. Throws ConfigError where the experiment itself is wrong.
std::optional<SmallestBudget> smallest_budget(const Experiment& experiment, const std::string& cache_dir, const MachineFactory& machines);

}  // namespace vitro
