#include "engine/app/sample_scorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/app/scaling/reward_model.hpp"

namespace vitro {

SampleScorer::SampleScorer(Machine& machine, const Experiment& experiment, const std::string& cache_dir, ScoreFunction function) {
  const ScalingConfig& scaling = *experiment.workload.scaling;
  if (scaling.method == ScalingMethod::self_consistency) return;
  if (scaling.scorer.kind == ScorerConfig::Kind::model) {
    open_reward_model(machine, experiment, cache_dir);
  } else {
    scorer_ = make_scorer(scaling.scorer, std::move(function), experiment.workload.seed);
  }
}

namespace {

// All weights in DRAM and whole matrices, on the cores that the model's placement has, or on its one unit.
EngineConfig beside(const Machine& machine, const EngineConfig& of_model) {
  EngineConfig engine = of_model;
  engine.weights = {};
  engine.weights.repack = of_model.weights.repack;
  engine.ffn = {};
  engine.lora = {};
  engine.kv.dram_tokens.reset();
  engine.kv.keep = KvConfig{}.keep;
  if (of_model.placement.kind == "unit") return engine;
  engine.placement = {};
  engine.placement.threads = of_model.placement.threads;
  std::ranges::copy_if(of_model.placement.units, std::back_inserter(engine.placement.units),
                       [&](const std::string& name) { return is_core(*unit_named(machine, name, "engine.units")); });
  return engine;
}

}  // namespace

void SampleScorer::open_reward_model(Machine& machine, const Experiment& experiment, const std::string& cache_dir) {
  const ScalingConfig& scaling = *experiment.workload.scaling;
  // A recording tells outcomes apart by sequence and position, and two models would use the same ones.
  if (!experiment.engine.record.empty())
    throw ConfigError("engine.record: can not be combined with workload.scaling.scorer.kind: model (remove it, or use another scorer)");
  if (!experiment.workload.prompt)
    throw ConfigError("workload.prompt_tokens: a reward model scores text (expected workload.prompt in place of prompt_tokens)");
  const EngineConfig engine = beside(machine, experiment.engine);
  model_ = load_model({scaling.scorer.gguf, "", {}}, engine, cache_dir);
  weights_ = model_.open(machine.storage);
  if (model_.config.context == 0)
    throw ConfigError(
        fmt::format("workload.scaling.scorer.gguf: {} does not state its context length, which a reward model must (expected the GGUF key "
                    "context_length)",
                    scaling.scorer.gguf));
  PolicyLimits limits;
  limits.max_rows = std::max(engine.prefill_chunk, scaling.samples);
  limits.max_sampled = limits.sequences = scaling.samples;
  limits.max_position = model_.config.context;
  limits.max_tokens = scaling.samples * (model_.config.context + engine.kv.block_tokens);
  decoder_ = make_decoder(machine, engine, {}, model_.config, weights_, limits);
  scorer_ = std::make_unique<RewardModel>(*decoder_.transformer, *decoder_.residency, *model_.tokenizer, scaling.scorer,
                                          *experiment.workload.prompt, model_.config.context);
}

}  // namespace vitro
