// The requests of an experiment, one after the other, on a decoder: for a run, and for whoever tries whether one gets by.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/app/experiment.hpp"
#include "engine/app/loaded_model.hpp"
#include "engine/app/sample_scorer.hpp"
#include "engine/app/scaling/search.hpp"
#include "engine/transformer/decoder.hpp"
#include "engine/transformer/generator.hpp"

namespace vitro {

// What a prompt reads as; of tokens that were drawn, by the tokenizer. None: there is none.
std::optional<std::string> prompt_text(const Experiment& experiment, const LoadedModel& model, const GenerationRequest& request);

// Told of what happens; does nothing by itself.
class ServingWatch {
 public:
  virtual ~ServingWatch() = default;
  virtual void loaded() {}            // what has to be in DRAM is there
  virtual void begins() {}            // a request
  virtual void prompt_ended() {}      // its first token is chosen
  virtual void decoding() {}          // and the weights are those for decoding
  virtual void step(std::uint64_t /*done*/, std::uint64_t /*total*/) {}
  // scaling: of workload.scaling, else null.
  virtual void served(GenerationResult /*result*/, ScalingResult* /*scaling*/) {}
};

struct Serving {
  const Experiment* experiment = nullptr;
  const LoadedModel* model = nullptr;
  Machine* machine = nullptr;
  Decoder* decoder = nullptr;
  SampleScorer* sample_scorer = nullptr;  // null: no workload.scaling
};

// Loads, and serves all requests. Requires: the pointers, and `watch`, outlive the task.
Task<void> serve_all(Serving serving, std::vector<GenerationRequest> requests, ServingWatch* watch);

}  // namespace vitro
