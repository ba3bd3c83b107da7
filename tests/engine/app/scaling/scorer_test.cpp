#include "engine/app/scaling/scorer.hpp"

#include <gtest/gtest.h>

#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

Task<void> ask(Scorer* scorer, std::vector<const Sample*> samples, std::vector<double>* out) {
  *out = co_await scorer->score(std::move(samples));
}

std::vector<double> scores(Scorer& scorer, const std::vector<Sample>& samples) {
  std::vector<const Sample*> asked;
  for (const Sample& sample : samples) asked.push_back(&sample);
  std::vector<double> out;
  VirtualExecutor executor;
  Task<void> task = ask(&scorer, std::move(asked), &out);
  executor.run(task);
  return out;
}

Sample said(const std::string& text, double log_probability = 0, std::uint32_t chosen = 0) {
  Sample sample;
  sample.text = text;
  sample.log_probability = log_probability;
  sample.chosen = chosen;
  return sample;
}

ScorerConfig config(const std::string& json) {
  const Node node = parse_json(R"({"method": "best_of_n", "samples": 2, "scorer": )" + json + "}", "exp.json");
  return read_scaling(Reader(node, ""), true).scorer;
}

TEST(Scorer, log_probability_is_a_mean_or_a_sum_over_the_chosen_tokens) {
  const std::vector<Sample> samples{said("a", -6, 3), said("b", -8, 8)};
  EXPECT_EQ(scores(*make_scorer(config(R"({"kind": "log_probability"})"), {}, 1), samples), (std::vector<double>{-2, -1}));
  EXPECT_EQ(scores(*make_scorer(config(R"({"kind": "log_probability", "over": "sum"})"), {}, 1), samples), (std::vector<double>{-6, -8}));
}

TEST(Scorer, a_regex_scores_the_share_of_patterns_that_occur) {
  const auto scorer = make_scorer(config(R"({"kind": "regex", "patterns": ["dog", "\\bred\\b", "cat"], "ignore_case": true})"), {}, 1);
  EXPECT_FALSE(scorer->wants_log_probability());
  EXPECT_EQ(scores(*scorer, {said("A Dog and a CAT"), said("reddish"), said("red dog cat")}), (std::vector<double>{2.0 / 3, 0, 1}));
}

TEST(Scorer, drawn_scores_follow_seed_and_tokens_alone) {
  Sample a, b;
  a.tokens = {1, 2, 3};
  b.tokens = {1, 2, 4};
  const std::vector<double> first = scores(*make_scorer(config(R"({"kind": "drawn"})"), {}, 1), {a, b});
  EXPECT_EQ(scores(*make_scorer(config(R"({"kind": "drawn"})"), {}, 1), {b, a}), (std::vector<double>{first[1], first[0]}));
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(scores(*make_scorer(config(R"({"kind": "drawn"})"), {}, 2), {a, b}), first);
}

TEST(Scorer, a_function_is_asked_with_the_sample_and_is_needed_by_kind_python) {
  const ScorerConfig python = config(R"({"kind": "python"})");
  const auto scorer = make_scorer(python, [](const Sample& sample) { return static_cast<double>(sample.text.size()); }, 1);
  EXPECT_TRUE(scorer->wants_log_probability());
  EXPECT_EQ(scores(*scorer, {said("abc"), said("")}), (std::vector<double>{3, 0}));
  EXPECT_THROW(make_scorer(python, {}, 1), ConfigError);
}

}  // namespace
}  // namespace vitro
