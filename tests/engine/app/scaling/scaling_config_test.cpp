#include "engine/app/scaling/scaling_config.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

ScalingConfig read(const std::string& json, bool numerics = true) {
  const Node node = parse_json(json, "exp.json");
  return read_scaling(Reader(node, "workload.scaling"), numerics);
}

std::string refusal(const std::string& json, bool numerics = true) {
  try {
    read(json, numerics);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ScalingConfig, reads_every_method) {
  const ScalingConfig best = read(R"({"method": "best_of_n", "samples": 4})");
  EXPECT_EQ(best.samples, 4u);
  EXPECT_EQ(best.scorer.kind, ScorerConfig::Kind::log_probability);
  EXPECT_TRUE(best.scorer.per_token);
  const ScalingConfig beams = read(R"({"method": "beam_search", "samples": 8, "width": 2, "step": {"until": ".", "max_tokens": 9},
                                      "scorer": {"kind": "regex", "patterns": ["a", "b+"]}})");
  EXPECT_EQ(beams.width, 2u);
  EXPECT_EQ(beams.step_until, ".");
  EXPECT_EQ(beams.step_tokens, 9u);
  EXPECT_EQ(beams.scorer.patterns.size(), 2u);
  const ScalingConfig votes = read(R"({"method": "self_consistency", "samples": 3, "answer": "is (\\d)!"})");
  EXPECT_EQ(votes.answer->text(), "is (\\d)!");
}

TEST(ScalingConfig, without_numerics_scores_are_drawn) {
  EXPECT_EQ(read(R"({"method": "best_of_n", "samples": 4})", false).scorer.kind, ScorerConfig::Kind::drawn);
  EXPECT_EQ(read(R"({"method": "beam_search", "samples": 4, "step": {"max_tokens": 5}})", false).step_tokens, 5u);
}

TEST(ScalingConfig, what_does_not_go_together_is_refused_by_key) {
  struct Bad {
    std::string json, expected;
    bool numerics = true;
  };
  const std::vector<Bad> cases{
      {R"({"samples": 4})", "workload.scaling.method"},
      {R"({"method": "best", "samples": 4})", "best_of_n"},
      {R"({"method": "best_of_n"})", "workload.scaling.samples"},
      {R"({"method": "best_of_n", "samples": 0})", "workload.scaling.samples"},
      {R"({"method": "best_of_n", "samples": 4, "width": 2})", "width: can not be combined with best_of_n"},
      {R"({"method": "beam_search", "samples": 4, "width": 3})", "is not a divisor of"},
      {R"({"method": "beam_search", "samples": 4, "answer": "(a+) ?"})", "can not be combined with beam_search"},
      {R"({"method": "self_consistency", "samples": 4})", "answer: is missing"},
      {R"({"method": "self_consistency", "samples": 4, "answer": "a"})", "has no group"},
      {R"({"method": "self_consistency", "samples": 4, "answer": "(a+) ?", "scorer": {"kind": "drawn"}})", "samples vote"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "regex"}})", "scorer.patterns"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "regex", "patterns": []}})", "is empty"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "regex", "patterns": ["("]}})", "is not a regular expression"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "model", "token": "yes"}})", "scorer.gguf"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "model", "gguf": "m.gguf", "against": "no"}})", "needs the token"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "model", "gguf": "m.gguf", "placement": "gpu"}})", "scorer.placement"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "drawn", "over": "sum"}})", "over"},
      {R"({"method": "best_of_n", "samples": 4, "scorer": {"kind": "log_probability"}})", "expected drawn", false},
      {R"({"method": "beam_search", "samples": 4, "step": {"until": "."}})", "until", false},
      {R"({"method": "self_consistency", "samples": 4, "answer": "(a+) ?"})", "needs text", false},
  };
  for (const Bad& bad : cases) {
    const std::string message = refusal(bad.json, bad.numerics);
    EXPECT_NE(message.find(bad.expected), std::string::npos) << bad.json << ": " << message;
    EXPECT_NE(message.find("exp.json:"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace vitro
