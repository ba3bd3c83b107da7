// A reward model: a second model on the same machine that reads prompt and answer, and is asked how likely it finds a token.
#pragma once
#include "engine/app/scaling/scorer.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/parts/weights/residency.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {

// The score of a sample is log p(token | prompt, answer, suffix), natural logarithm, or with `against` the log-odds of the two
// tokens. Process reward models that judge in words work so ("+" against "-"); Skywork's PRM (TTS-NPU, section 7.1) has a head
// of its own instead, which GGUF files do not carry. What all samples of a call begin with is computed once and shared.
class RewardModel final : public Scorer {
 public:
  // Throws ConfigError when `token` or `against` is not exactly one token of the model. Everything outlives it.
  // `context`: the longest text in tokens. Requires: the transformer takes as many sampled rows as samples are scored at once.
  RewardModel(Transformer& model, Residency& residency, const Tokenizer& tokenizer, const ScorerConfig& config, std::string prompt,
              std::uint32_t context);

  Task<void> load() override { return residency_.load(); }
  Task<std::vector<double>> score(std::vector<const Sample*> samples) override;

 private:
  std::vector<std::int32_t> encode(const Sample& sample) const;
  std::int32_t only_token(std::string_view key, const std::string& text) const;
  Task<void> compute_prefix(std::uint32_t sequence, std::vector<std::int32_t> tokens);

  Transformer& model_;
  Residency& residency_;
  const Tokenizer& tokenizer_;
  std::string prompt_, suffix_;
  std::uint32_t context_;
  std::int32_t token_ = 0;
  std::optional<std::int32_t> against_;
};

}  // namespace vitro
