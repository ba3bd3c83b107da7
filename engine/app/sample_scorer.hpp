// What judges the samples of a run (workload.scaling), with all that it stands on.
#pragma once
#include "engine/app/loaded_model.hpp"
#include "engine/app/scaling/reward_model.hpp"
#include "engine/transformer/decoder.hpp"

namespace vitro {

class SampleScorer {
 public:
  // A reward model computes on the cores of `model`, or on all of its units, whose sessions the two then share. All its weights are in
  // DRAM, under the same budget. `prompt`: what samples go on from. `function`: for kind python.
  // Throws ConfigError. The machine and the model outlive it.
  SampleScorer(Machine& machine, const Experiment& experiment, RewardModel::Prompt prompt, const Decoder& model,
               const std::string& cache_dir, ScoreFunction function);

  Scorer* scorer() { return scorer_.get(); }  // null: samples vote
  Transformer* reward_model() { return decoder_.transformer.get(); }  // null: nothing judges, or no model does

 private:
  void open_reward_model(Machine& machine, const Experiment& experiment, RewardModel::Prompt prompt, const Decoder& model,
                         const std::string& cache_dir);

  LoadedModel model_;  // of a reward model; so are the next two
  WeightStore weights_;
  Decoder decoder_;
  std::unique_ptr<Scorer> scorer_;
};

}  // namespace vitro
