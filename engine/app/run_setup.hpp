// What a run of an experiment asks of a machine, of a decoder and of the generator: for whoever runs one, a session or a test.
#pragma once
#include <memory>
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

// `saved`: what the prompt goes on after; null: nothing. It outlives the request.
GenerationRequest generation_request(const Experiment& experiment, const LoadedModel& model, const Request& asked,
                                     const SavedSequence* saved);

// Of requests that run one after the other.
PolicyLimits limits_of(const std::vector<GenerationRequest>& requests, const EngineConfig& engine);

}  // namespace vitro
