// What a run of an experiment asks of a machine, of a decoder and of the generator: for whoever runs one, a session or a test.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/app/experiment.hpp"
#include "engine/app/loaded_model.hpp"
#include "engine/app/machines.hpp"
#include "engine/transformer/decoder.hpp"
#include "engine/transformer/generator.hpp"

namespace vitro {

// What stands behind the units: engine.function.
std::unique_ptr<Function> make_function(const Experiment& experiment);

MachineRequest machine_request(const Experiment& experiment, const LoadedModel& model);

// All of the experiment's, one after the other. `saved`: what the only one goes on after; null: nothing. It outlives them. Throws
// ConfigError where one could exceed the model's context.
std::vector<GenerationRequest> generation_requests(const Experiment& experiment, const LoadedModel& model, const SavedSequence* saved);

// By name, the positions that a sequence may have when a request keeps it.
std::map<std::string, std::uint32_t> longest_kept(const std::vector<GenerationRequest>& requests);

// Of requests that run one after the other, with what is kept meanwhile.
PolicyLimits limits_of(const std::vector<GenerationRequest>& requests, const EngineConfig& engine, KeptIn kept_in = KeptIn::dram);

}  // namespace vitro
