// Files and folders that an experiment names for its run: whether they can be written, and what a saved sequence comes from.
#pragma once
#include "engine/app/experiment.hpp"
#include "engine/transformer/saved_sequence.hpp"

namespace vitro {

// Throws ConfigError, with the file and line of the key, when what the experiment names to be written (engine.record, workload.save_kv,
// the folder engine.kv.scratch) can not be.
void require_outputs(const Experiment& experiment);

// Of the experiment's model.gguf and of the adapter of its only sequence, from bytes all over them, and of its numeric contracts, to which
// the divisors of frequencies belong where they depend on the `longest` sequence of the run. Throws ConfigError.
SequenceOrigin sequence_origin(const Experiment& experiment, const ModelConfig& config, std::uint32_t longest);

}  // namespace vitro
