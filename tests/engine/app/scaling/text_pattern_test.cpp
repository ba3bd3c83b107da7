#include "engine/app/scaling/text_pattern.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

TextPattern pattern(const std::string& text, bool ignore_case = false) {
  const Node node = Node::map({});
  const Reader reader(node, "scorer");
  return TextPattern::read(reader, "patterns", text, ignore_case);
}

TEST(TextPattern, is_searched_for_and_minds_case_unless_told) {
  EXPECT_TRUE(pattern("\\bdog\\b").occurs_in("a dog."));
  EXPECT_FALSE(pattern("\\bdog\\b").occurs_in("a dogged Dog"));
  EXPECT_TRUE(pattern("\\bdog\\b", true).occurs_in("a dogged Dog"));
}

TEST(TextPattern, the_last_match_gives_the_answer) {
  const TextPattern is = pattern("is (\\d+)");
  EXPECT_EQ(is.groups(), 1u);
  EXPECT_EQ(is.last_group("one is 1, no, it is 22."), "22");
  EXPECT_EQ(is.last_group("nothing"), std::nullopt);
}

TEST(TextPattern, what_is_no_expression_is_refused_by_key) {
  try {
    pattern("(open");
    FAIL() << "it was taken";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("scorer.patterns: \"(open\" is not a regular expression"), std::string::npos) << error.what();
  }
}

// The usual matcher of libstdc++ takes a stack frame for every character of `.*`, and would end here.
TEST(TextPattern, a_text_beyond_the_limit_is_refused_and_one_at_the_limit_is_not) {
  const TextPattern any = pattern("a.*b");
  EXPECT_FALSE(any.occurs_in("a" + std::string(TextPattern::kLongest - 1, 'x')));
  EXPECT_TRUE(any.occurs_in("a" + std::string(TextPattern::kLongest - 2, 'x') + "b"));
  EXPECT_THROW(any.occurs_in(std::string(TextPattern::kLongest + 1, 'x')), RunError);
}

TEST(TextPattern, time_does_not_explode_with_nested_repetition) { EXPECT_FALSE(pattern("(x+x+)+y").occurs_in(std::string(200, 'x'))); }

}  // namespace
}  // namespace vitro
