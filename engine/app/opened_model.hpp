// A model's files opened on a machine, and decoders of an experiment made of them.
#pragma once
#include <optional>

#include "engine/app/experiment.hpp"
#include "engine/app/loaded_model.hpp"
#include "engine/transformer/decoder.hpp"

namespace vitro {

class OpenedModel {
 public:
  // Throws ConfigError. The experiment, the model and the machine outlive it.
  OpenedModel(const Experiment& experiment, const LoadedModel& model, Machine& machine);

  // Outlived by this and by the machine.
  Decoder make_decoder(const PolicyLimits& limits) const;
  const WeightStore& weights() const { return weights_; }

 private:
  const Experiment& experiment_;
  const ModelConfig& config_;
  Machine& machine_;
  WeightStore weights_;
  std::optional<WeightStore> copy_;
  DecoderAdapters adapters_;
};

}  // namespace vitro
