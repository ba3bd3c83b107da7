#include "engine/transformer/check_answers.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

std::string error_of(std::vector<ExpertChoice> choices, std::size_t rows = 1) {
  return message_of<RunError>([&] { check_choices(choices, rows, tiny_mixture(), 1); });  // 2 of 5 experts
}

TEST(CheckAnswers, experts_are_those_of_the_model_each_once_for_every_row) {
  EXPECT_EQ(error_of({{{4, 0}, {0.5f, 0.5f}}}), "");
  EXPECT_EQ(error_of({{{4, 5}, {0.5f, 0.5f}}}),
            "the router of layer 1: a unit answered with expert 5 (expected 2 of 5 experts for each of 1 rows)");
  EXPECT_THAT(error_of({{{4, 4}, {0.5f, 0.5f}}}), HasSubstr("expert 4 twice"));
  EXPECT_THAT(error_of({{{4}, {0.5f}}}), HasSubstr("1 experts and 1 weights"));
  EXPECT_THAT(error_of({{{4, 0}, {0.5f, std::numeric_limits<float>::quiet_NaN()}}}), HasSubstr("a weight that is no number"));
  EXPECT_THAT(error_of({}), HasSubstr("0 rows"));
}

TEST(CheckAnswers, tokens_are_those_of_the_vocabulary_one_for_each_row) {
  const auto error = [](std::vector<std::int32_t> tokens) {
    return message_of<RunError>([&] { check_tokens({std::move(tokens)}, 2, tiny_dense()); });
  };
  EXPECT_EQ(error({0, 71}), "");
  EXPECT_EQ(error({0, 72}), "sampling: a unit answered with token 72 (expected 0 to 71)");
  EXPECT_THAT(error({-1, 3}), HasSubstr("token -1"));
  EXPECT_THAT(error({3}), HasSubstr("1 tokens (expected 2)"));
}

}  // namespace
}  // namespace vitro
