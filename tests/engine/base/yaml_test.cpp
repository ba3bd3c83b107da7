#include <gtest/gtest.h>

#include "engine/base/config.hpp"
#include "engine/base/rng.hpp"

namespace vitro {
namespace {

std::string parse_error(std::string_view text) {
  try {
    parse_yaml(text, "x.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Yaml, values_know_their_lines) {
  const Node node = parse_yaml("# comment\na: 1\nb:\n  c: [true, t]\n\n  d: >\n    folded\n    text\n", "x.yaml");
  EXPECT_EQ(node.find("a")->origin().str(), "x.yaml:2");
  EXPECT_EQ(node.find_path("b.c")->origin().line, 4);
  EXPECT_EQ(node.find_path("b.c")->items()[1].origin().line, 4);
  EXPECT_EQ(node.find_path("b.d")->text(), "folded text\n");
}

TEST(Yaml, quotes_make_text_and_null_is_nothing) {
  const Node node = parse_yaml("a: \"1\"\nb: 1\nc: null\nd: ~\ne:\nf: \"null\"\n", "x");
  EXPECT_EQ(node.to_json(), R"({"a":"1","b":1,"c":null,"d":null,"e":null,"f":"null"})");
  EXPECT_TRUE(node.find("a")->quoted());
}

TEST(Yaml, is_the_same_tree_as_its_json) {
  const Node yaml = parse_yaml("a: {b: [1, 2.5, x y], c: off}\nd: 59.6 GB/s\n", "x");
  EXPECT_EQ(parse_json(yaml.to_json(), "y").to_json(), yaml.to_json());
}

TEST(Yaml, text_that_is_no_utf8_is_named_with_its_line) {
  EXPECT_EQ(parse_error("a: 1\nb: \"\xff\"\n"), "x.yaml:2: is not UTF-8 text");
  for (const std::string_view broken : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_EQ(parse_error(broken), "x.yaml:1: is not UTF-8 text");
  }
  EXPECT_EQ(parse_yaml("a: \u00e9 \u20ac \U0001f600\n", "x").find("a")->text(), "\u00e9 \u20ac \U0001f600");
}

TEST(Yaml, nothing_has_a_place_as_well) {
  EXPECT_EQ(parse_yaml("", "x.yaml").origin().str(), "x.yaml:1");
  EXPECT_EQ(parse_yaml("a: 1\nb:\n", "x.yaml").find("b")->origin().str(), "x.yaml:2");
}

TEST(Yaml, damage_is_named_with_its_line) {
  EXPECT_EQ(parse_error("a: 1\nb: [1, 2\nc: 3\n").rfind("x.yaml:", 0), 0u);
  EXPECT_NE(parse_error("a: 1\n  b: 2\n").find("x.yaml:2: not valid YAML"), std::string::npos) << parse_error("a: 1\n  b: 2\n");
  EXPECT_EQ(parse_error("a: 1\nb: 2\na: 3\n"), "x.yaml:3: a: given twice (first on line 1)");
  EXPECT_EQ(parse_error("a: &x 1\nb: *x\n"), "x.yaml:2: aliases (*name) are not supported");
  EXPECT_EQ(parse_error("? [a]\n: 1\n"), "x.yaml:1: a key has to be plain text");
  EXPECT_EQ(parse_error("a: 1\n---\nb: 2\n"), "x.yaml:2: a second document begins here (expected one)");
}

TEST(Yaml, depth_is_bounded_before_the_parser_runs_out_of_stack) {
  std::string blocks;
  for (int i = 0; i < 70; ++i) blocks += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_NE(parse_error(blocks).find("nested deeper than 64 levels"), std::string::npos);
  EXPECT_NE(parse_error(std::string(1'000'000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(parse_error(std::string(1'000'000, '{')).find("nested deeper"), std::string::npos);
  std::string dashes;
  for (int i = 0; i < 100'000; ++i) dashes += "- ";
  EXPECT_NE(parse_error(dashes + "x").find("nested deeper"), std::string::npos);
}

TEST(Yaml, hostile_bytes_end_in_a_tree_or_in_a_message) {
  constexpr std::string_view kAlphabet = "ab1:-?,[]{}\"'#&*!|>%@` \n\t\\~";
  Rng rng(31);
  int trees = 0, messages = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string text;
    for (std::uint64_t n = rng.below(40); n > 0; --n) text += kAlphabet[rng.below(kAlphabet.size())];
    try {
      parse_yaml(text, "x").to_json();
      ++trees;
    } catch (const ConfigError&) {
      ++messages;
    }
  }
  EXPECT_GT(trees, 100);
  EXPECT_GT(messages, 100);
}

}  // namespace
}  // namespace vitro
