// A reward model: a second model on the same machine that reads prompt and answer and says what they are worth.
#pragma once
#include "engine/app/scaling/scorer.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/parts/weights/residency.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {

// The score of a sample is the value head's answer at the last token of prompt, answer and suffix, as Skywork's PRM gives it (TTS-NPU,
// section 7.1), or with `token` log p(token | prompt, answer, suffix), natural logarithm, or with `against` the log-odds of the two
// tokens. Process reward models that judge in words work so ("+" against "-").
// Where nothing is computed the rows are those of the texts, or where a model has no tokenizer as many as the prompt and the sample have
// tokens; scores are drawn (drawn_score), and suffix, token and against are asked of the tokenizer that there is.
// What all samples of a call begin with is computed once and shared. With `incremental` keys and values of samples that keep() names stay:
// a later text computes what it does not begin with alone, whichever of them it continues. The score is that of the whole text.
class RewardModel final : public Scorer {
 public:
  // What samples go on from: as text where both models have a tokenizer, else as tokens of the model that is judged.
  struct Prompt {
    std::optional<std::string> text;
    std::vector<std::int32_t> tokens = {};
  };
  // Throws ConfigError when `token` or `against` is not exactly one token of the model. Everything outlives it.
  // `context`: the longest text in tokens. Requires: the transformer takes as many sampled rows as samples are scored at once, and has
  // TransformerOptions::value exactly if there is no `token`.
  // tokenizer: null, the model has none, or the judged one; scores are drawn then. seed: of drawn scores.
  RewardModel(Transformer& model, Residency& residency, const Tokenizer* tokenizer, const ScorerConfig& config, Prompt prompt,
              std::uint32_t context, std::uint64_t seed = 0);

  Task<void> load() override { return residency_.load(); }
  Task<std::vector<double>> score(std::vector<const Sample*> samples) override;
  void keep(const std::vector<const Sample*>& samples) override;
  std::uint64_t rows() const override { return rows_; }

 private:
  using Tokens = std::vector<std::int32_t>;
  struct Kept {  // a text whose keys and values are there
    std::string text;  // key_of
    Tokens tokens;
    std::uint32_t sequence = 0;
  };
  struct Begun {  // a text of which a sequence holds the first tokens
    const Tokens* tokens = nullptr;
    std::uint32_t sequence = 0, done = 0, end = 0;  // `end`: tokens that are to be computed
  };

  Tokens encode(const Sample& sample) const;
  std::string key_of(const Sample& sample) const;
  std::int32_t only_token(std::string_view key, const std::string& text) const;
  std::vector<std::uint32_t> continued_by(const std::vector<Tokens>& texts, std::vector<Begun>& beginnings);
  Task<void> compute(std::vector<Begun> texts, bool asked, std::vector<double>* scores);
  double score_of(std::size_t row) const;
  void release(std::vector<Kept>& texts);

  Transformer& model_;
  Residency& residency_;
  const Tokenizer* const tokenizer_;
  const Prompt prompt_;
  const std::string suffix_;
  std::uint32_t context_;
  bool incremental_, drawn_;
  std::uint64_t seed_;
  std::optional<std::int32_t> token_, against_;
  std::vector<Kept> kept_;
  std::uint64_t rows_ = 0;
};

}  // namespace vitro
