#include "engine/app/scaling/reward_model.hpp"

#include "engine/transformer/generator.hpp"
#include "tests/engine/app/scaling/bench.hpp"

namespace vitro {
namespace {

const std::string kPrompt = "Once upon a time";
const std::vector<std::string> kAnswers{" there was a little girl. She was happy.", " there was a little dog", "", " there was a lion."};

Task<void> judge(RewardModel* reward, std::vector<const Sample*> samples, std::vector<double>* out) {
  co_await reward->load();
  *out = co_await reward->score(std::move(samples));
}

Task<void> measure(Bench* bench, std::vector<std::int32_t> tokens, double* out) {
  co_await bench->decoder.load();
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const Likelihood all = co_await score(&bench->transformer(), tokens, std::nullopt, count, count, bench->model.config.vocab);
  *out = -all.nll * static_cast<double>(all.tokens);
}

ScorerConfig asks_for(const std::string& token, const std::string& against = "") {
  ScorerConfig config;
  config.kind = ScorerConfig::Kind::model;
  config.token = token;
  config.against = against;
  return config;
}

std::vector<double> rewards(const ScorerConfig& config, const std::vector<std::string>& answers, Bench& bench) {
  RewardModel reward(bench.transformer(), *bench.decoder.residency, *bench.model.tokenizer, config, kPrompt, 128);
  std::vector<Sample> samples(answers.size());
  std::vector<const Sample*> asked;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    samples[i].text = answers[i];
    asked.push_back(&samples[i]);
  }
  std::vector<double> out;
  bench.host.run(judge(&reward, std::move(asked), &out));
  EXPECT_EQ(bench.transformer().kv().live_blocks(), 0u);
  return out;
}

// log p(token | text) is what the likelihood of the text grows by when the token is added.
double expected(const std::string& answer, const std::string& token) {
  const auto likelihood = [&](bool with_token) {
    Bench bench(limits_of(64, 128));
    std::vector<std::int32_t> ids = bench.encode(kPrompt + answer);
    if (with_token) ids.push_back(bench.model.tokenizer->encode(token).front());
    double sum = 0;
    bench.host.run(measure(&bench, std::move(ids), &sum));
    return sum;
  };
  return likelihood(true) - likelihood(false);
}

TEST(RewardModel, scores_are_log_likelihoods_of_the_token_with_or_without_shared_beginnings) {
  Bench together(limits_of(4, 128));
  const std::vector<double> scores = rewards(asks_for("He"), kAnswers, together);
  ASSERT_EQ(scores.size(), kAnswers.size());
  for (std::size_t i = 0; i < kAnswers.size(); ++i) {
    EXPECT_NEAR(scores[i], expected(kAnswers[i], "He"), 1e-4) << kAnswers[i];
    Bench alone(limits_of(1, 128));
    EXPECT_NEAR(rewards(asks_for("He"), {kAnswers[i]}, alone).front(), scores[i], 1e-5);
  }
}

TEST(RewardModel, against_another_token_the_score_is_the_difference) {
  Bench one(limits_of(4, 128)), other(limits_of(4, 128)), both(limits_of(4, 128));
  const std::vector<double> he = rewards(asks_for("He"), kAnswers, one), she = rewards(asks_for("She"), kAnswers, other);
  const std::vector<double> odds = rewards(asks_for("He", "She"), kAnswers, both);
  for (std::size_t i = 0; i < odds.size(); ++i) EXPECT_NEAR(odds[i], he[i] - she[i], 1e-4);
}

TEST(RewardModel, more_than_one_token_or_a_text_beyond_the_context_are_refused) {
  Bench bench(limits_of(4, 128));
  EXPECT_THROW(RewardModel(bench.transformer(), *bench.decoder.residency, *bench.model.tokenizer, asks_for("a whole sentence"), "", 128),
               ConfigError);
  EXPECT_THROW(rewards(asks_for("He"), {std::string(2000, 'x')}, bench), RunError);
}

}  // namespace
}  // namespace vitro
