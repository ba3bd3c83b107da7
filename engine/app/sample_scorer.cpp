#include "engine/app/sample_scorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "engine/app/scaling/reward_model.hpp"
#include "traces/recording.hpp"

namespace vitro {

SampleScorer::SampleScorer(Machine& machine, const Experiment& experiment, RewardModel::Prompt prompt, const Decoder& model,
                           const std::string& cache_dir, ScoreFunction function) {
  const ScalingConfig& scaling = *experiment.workload.scaling;
  if (scaling.method == ScalingMethod::self_consistency) return;
  if (scaling.scorer.kind == ScorerConfig::Kind::model) {
    open_reward_model(machine, experiment, std::move(prompt), model, cache_dir);
  } else {
    scorer_ = make_scorer(scaling.scorer, std::move(function), experiment.workload.seed);
  }
}

namespace {

// All weights in DRAM and whole matrices, on the cores that the model's placement has, on its one unit, or as the model is placed.
EngineConfig beside(const Machine& machine, const EngineConfig& of_model, bool placed_alike) {
  EngineConfig engine = of_model;
  engine.weights = {};
  engine.weights.repack = of_model.weights.repack;
  engine.ffn = {};
  engine.lora = {};
  engine.record.clear();  // which neurons fire is not asked: no engine leaves any out
  engine.products.prefill_matmul = VariantId::none;  // a score does not depend on how many rows are computed beside it
  engine.kv.dram_tokens.reset();
  engine.kv.keep = KvConfig{}.keep;
  for (PlacementConfig::Split& split : engine.placement.splits) split.hot_by_layer.clear();  // of the other model's layers
  if (placed_alike || of_model.placement.kind == "unit") return engine;
  engine.placement = {};
  engine.placement.threads = of_model.placement.threads;
  std::ranges::copy_if(of_model.placement.units, std::back_inserter(engine.placement.units),
                       [&](const std::string& name) { return is_core(*unit_named(machine, name, "engine.units")); });
  return engine;
}

// Shapes are those of a file like those of configs/models, with a format beside them, or stand in the experiment by themselves.
ModelSource source_of(const ScorerConfig& scorer) {
  if (!scorer.shape) return {scorer.gguf, "", {}};
  if (scorer.shape->find("shape") != nullptr) return {"", "", *scorer.shape, "workload.scaling.scorer.shape"};
  return {"", "", Node::map({{"shape", *scorer.shape}}), "workload.scaling.scorer"};
}

}  // namespace

void SampleScorer::open_reward_model(Machine& machine, const Experiment& experiment, RewardModel::Prompt prompt, const Decoder& model,
                                     const std::string& cache_dir) {
  const ScalingConfig& scaling = *experiment.workload.scaling;
  const ScorerConfig& scorer = scaling.scorer;
  const EngineConfig engine = beside(machine, experiment.engine, scorer.beside_model);
  model_ = load_model(source_of(scorer), engine, cache_dir);
  const std::string from = scorer.shape ? "workload.scaling.scorer.shape" : "workload.scaling.scorer.gguf";
  const std::string named = scorer.shape ? model_.name : scorer.gguf;
  weights_ = model_.open(machine.storage);
  PolicyLimits limits;
  limits.value = scorer.shape ? model_.config.value_head : scorer.token.empty();
  if (limits.value && !model_.config.value_head)
    throw ConfigError(
        fmt::format("workload.scaling.scorer.token: is not stated, and {} has no value head, the tensor {} (expected the token that "
                    "the reward model judges with)",
                    scorer.gguf, tensor_name(Role::value_head, -1, false)));
  if (!limits.value && model_.config.value_head && model_.config.tied_embedding)
    throw ConfigError(fmt::format("workload.scaling.scorer.token: {} has a value head and no output.weight, so it has no tokens to judge "
                                  "with (expected no token)",
                                  scorer.gguf));
  if (limits.value) weights_ = weights_.without(Role::output);
  if (model_.config.context == 0)
    throw ConfigError(
        fmt::format("{}: {} does not state its context length, which a reward model must (expected the key {})", from, named,
                    scorer.shape ? "context" : "context_length"));
  limits.max_rows = std::max(engine.prefill_chunk, scaling.samples);
  if (scorer.context > model_.config.context)
    throw ConfigError(fmt::format("workload.scaling.scorer.context: {} (expected up to {}, the context of {})", scorer.context,
                                  model_.config.context, named));
  const std::uint32_t context = scorer.context > 0 ? scorer.context : model_.config.context;
  limits.max_sampled = scaling.samples;
  limits.sequences = scaling.samples + scaling.width;  // those that are scored, and those that they continue
  limits.max_position = context;
  const std::uint64_t tokens = std::uint64_t{limits.sequences} * (context + engine.kv.block_tokens);
  if (tokens > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(fmt::format("workload.scaling.scorer.context: {} positions for each of {} sequences (expected less)", context,
                                  limits.sequences));
  }
  limits.max_tokens = static_cast<std::uint32_t>(tokens);
  limits.first_sequence = kFirstOfJudge;
  decoder_ = make_decoder(machine, engine, {}, model_.config, weights_, limits, nullptr, {}, &model);
  const Tokenizer* const tokenizer = prompt.text ? model_.tokenizer.get() : nullptr;
  scorer_ = std::make_unique<RewardModel>(*decoder_.transformer, *decoder_.residency, tokenizer, scorer, std::move(prompt), context,
                                          experiment.workload.seed);
}

}  // namespace vitro
