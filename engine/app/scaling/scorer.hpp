// What judges generated samples. Higher is better.
#pragma once
#include <functional>
#include <memory>

#include "engine/app/scaling/scaling_config.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

// A generated sequence, complete or not. `tokens` are without a stop token.
struct Sample {
  std::vector<std::int32_t> tokens;
  std::string text;                       // the tokens' pieces; empty for a model without a tokenizer
  std::uint32_t chosen = 0;               // tokens, the stop token included
  std::optional<double> log_probability;  // sum over all that were chosen, at temperature 1; none unless the scorer wants it
  bool ended = false;                     // by the stop token or the limit of output tokens
  std::optional<double> score;
  std::optional<std::string> answer;
};

class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual bool wants_log_probability() const { return false; }
  // Reads what has to be in DRAM before the first sample.
  virtual Task<void> load() { co_return; }
  // One score per sample, in order. Requires: the samples outlive the task. Throws RunError.
  virtual Task<std::vector<double>> score(std::vector<const Sample*> samples) = 0;
  // Of the samples that were scored, these alone will be scored again, with more text behind what they hold now.
  virtual void keep(const std::vector<const Sample*>& /*samples*/) {}
  virtual std::uint64_t rows() const { return 0; }  // that a model has computed for the scores
};

// A judge from outside, such as a Python callable. Takes no simulated time.
using ScoreFunction = std::function<double(const Sample&)>;

// From 0 to 1, drawn from the seed and the sample's tokens alone.
double drawn_score(const Sample& sample, std::uint64_t seed);

// Every kind but `model`, which is a RewardModel. `function`: for kind python. `seed`: of drawn scores. Throws ConfigError for kind python
// without a function.
std::unique_ptr<Scorer> make_scorer(const ScorerConfig& config, ScoreFunction function, std::uint64_t seed);

}  // namespace vitro
