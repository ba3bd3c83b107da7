#include "engine/app/scaling/scorer.hpp"

#include <algorithm>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

constexpr std::uint64_t kScoreStream = 0x73636f7265;  // keeps drawn scores apart from other draws of the same seed

// A scorer that looks at one sample at a time and runs nothing on the machine.
class FunctionScorer final : public Scorer {
 public:
  FunctionScorer(ScoreFunction function, bool wants_log_probability) : function_(std::move(function)), wants_(wants_log_probability) {}

  bool wants_log_probability() const override { return wants_; }
  Task<std::vector<double>> score(std::vector<const Sample*> samples) override {
    std::vector<double> scores;
    for (const Sample* sample : samples) scores.push_back(function_(*sample));
    co_return scores;
  }

 private:
  ScoreFunction function_;
  bool wants_;
};

double sum_of_log_probabilities(const Sample& sample) { return sample.log_probability.value_or(0); }
double mean_log_probability(const Sample& sample) { return sum_of_log_probabilities(sample) / std::max(sample.chosen, 1u); }

}  // namespace

double drawn_score(const Sample& sample, std::uint64_t seed) {
  std::uint64_t key = mix(seed, {kScoreStream, sample.tokens.size()});
  for (const std::int32_t token : sample.tokens) key = mix(key, {static_cast<std::uint64_t>(token)});
  return to_unit(key);
}

std::unique_ptr<Scorer> make_scorer(const ScorerConfig& config, ScoreFunction function, std::uint64_t seed) {
  using Kind = ScorerConfig::Kind;
  switch (config.kind) {
    case Kind::log_probability:
      return std::make_unique<FunctionScorer>(config.per_token ? mean_log_probability : sum_of_log_probabilities, true);
    case Kind::regex:
      return std::make_unique<FunctionScorer>(
          [patterns = config.patterns](const Sample& sample) {
            const auto found =
                std::count_if(patterns.begin(), patterns.end(), [&](const TextPattern& p) { return p.occurs_in(sample.text); });
            return static_cast<double>(found) / static_cast<double>(patterns.size());
          },
          false);
    case Kind::python:
      if (!function) {
        throw ConfigError("workload.scaling.scorer.kind: python needs a callable (expected vitro.run(..., scorer=callable))");
      }
      return std::make_unique<FunctionScorer>(std::move(function), true);
    case Kind::drawn:
      return std::make_unique<FunctionScorer>([seed](const Sample& sample) { return drawn_score(sample, seed); }, false);
    case Kind::model:
      break;
  }
  throw RunError("internal error: a scorer of kind model needs a machine");
}

}  // namespace vitro
