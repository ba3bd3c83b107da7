#include "engine/experiment/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/scaling/reward_model.hpp"

namespace vitro {

Judge::Judge(Machine& machine, const Experiment& experiment, const std::string& cache_dir, ScoreFunction function) {
  const ScalingConfig& scaling = *experiment.workload.scaling;
  if (scaling.method == ScalingMethod::self_consistency) return;
  if (scaling.scorer.kind == ScorerConfig::Kind::model) {
    open_reward_model(machine, experiment, cache_dir);
  } else {
    scorer_ = make_scorer(scaling.scorer, std::move(function), experiment.workload.seed);
  }
}

void Judge::open_reward_model(Machine& machine, const Experiment& experiment, const std::string& cache_dir) {
  const ScalingConfig& scaling = *experiment.workload.scaling;
  // A recording tells outcomes apart by sequence and position, and two models would use the same ones.
  if (!experiment.engine.record.empty()) throw ConfigError("engine.record: does not go with workload.scaling.scorer.kind: model");
  if (!experiment.workload.prompt) throw ConfigError("workload.prompt_tokens: a reward model reads text (expected workload.prompt)");
  EngineConfig engine = experiment.engine;
  engine.policy = "dense";
  engine.bundles.reset();
  engine.hybrid = {};
  engine.kv_dram_tokens.reset();
  engine.embedding_in_flash = false;
  model_ = load_model({scaling.scorer.gguf, "", {}}, engine, cache_dir);
  weights_ = model_.open(machine.storage);
  if (model_.config.context == 0) throw ConfigError(fmt::format("{}: a reward model has to state its context", scaling.scorer.gguf));
  PolicyLimits limits;
  limits.max_rows = std::max(engine.prefill_chunk, scaling.samples);
  limits.max_sampled = limits.sequences = scaling.samples;
  limits.max_position = model_.config.context;
  limits.max_tokens = scaling.samples * (model_.config.context + engine.kv_block_tokens);
  policy_ = make_policy(machine, engine, {}, model_.config, weights_, limits);
  scorer_ = std::make_unique<RewardModel>(*policy_.transformer, *policy_.residency, *model_.tokenizer, scaling.scorer,
                                          *experiment.workload.prompt, model_.config.context);
}

}  // namespace vitro
