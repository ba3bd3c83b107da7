#include <fmt/format.h>
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

TEST(Yaml, a_map_or_list_below_its_key_has_the_place_of_the_key) {
  const Node node = parse_yaml("a:\n\n  b:\n    c: 1\nd:\n  - 1\n  -\n    e: 2\n", "x.yaml");
  EXPECT_EQ(node.find("a")->origin().line, 1);
  EXPECT_EQ(node.find_path("a.b")->origin().line, 3);
  EXPECT_EQ(node.find_path("a.b.c")->origin().line, 4);
  EXPECT_EQ(node.find("d")->origin().line, 5);
  EXPECT_EQ(node.find("d")->items()[1].origin().line, 8) << "of an item without a key, where it begins";
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
  EXPECT_EQ(parse_error("a:\n \tb: 1\n"), "x.yaml:2: not valid YAML: a tab indents this line (expected spaces)");
  EXPECT_EQ(parse_error("a: 1\nb: 2\na: 3\n"), "x.yaml:3: a: given twice (first on line 1)");
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

TEST(Yaml, an_alias_is_a_copy_that_knows_where_it_was_written) {
  const Node node = parse_yaml("a: &x {b: [1, 2]}\nc: *x\nd: &s 59.6 GB/s\ne: [*s, *x]\n*s : key\n", "x.yaml");
  EXPECT_EQ(node.to_json(), R"({"a":{"b":[1,2]},"c":{"b":[1,2]},"d":"59.6 GB/s","e":["59.6 GB/s",{"b":[1,2]}],"59.6 GB/s":"key"})");
  EXPECT_EQ(node.find_path("c.b")->origin().line, 1);
  EXPECT_EQ(parse_yaml("a: &x 1\nb: *x\na2: &x 2\nc: *x\n", "x").to_json(), R"({"a":1,"b":1,"a2":2,"c":2})");
}

// As PyYAML orders them: merged entries first.
TEST(Yaml, merged_keys_give_way_to_own_ones) {
  const std::string_view base = "x: &x {a: 1, b: 1, deep: {p: 1, q: 1}}\ny: &y {b: 2, c: 2}\n";
  const auto z = [&](std::string_view text) { return parse_yaml(fmt::format("{}z: {}\n", base, text), "x").find("z")->to_json(); };
  EXPECT_EQ(z("{<<: *x, b: 3, d: 3}"), R"({"a":1,"b":3,"deep":{"p":1,"q":1},"d":3})");
  EXPECT_EQ(z("{b: 3, <<: *x}"), R"({"a":1,"b":3,"deep":{"p":1,"q":1}})");
  EXPECT_EQ(z("{<<: [*x, *y]}"), R"({"b":1,"c":2,"a":1,"deep":{"p":1,"q":1}})");
  EXPECT_EQ(z("{<<: *x, deep: {q: 2}}"), R"({"a":1,"b":1,"deep":{"q":2}})") << "shallow";
  EXPECT_EQ(z("{<<: {a: 1}}"), R"({"a":1})");
  EXPECT_EQ(z("{\"<<\": 1}"), R"({"<<":1})") << "in quotes it is a key like others";
  EXPECT_EQ(z("<<"), R"("<<")");
  EXPECT_EQ(parse_json(R"({"<<": {"a": 1}})", "x").to_json(), R"({"<<":{"a":1}})");
}

TEST(Yaml, aliases_that_can_not_be_are_named_with_their_line) {
  EXPECT_NE(parse_error("a: 1\nb: *x\n").find("x.yaml:2: not valid YAML"), std::string::npos);
  EXPECT_EQ(parse_error("a: 1\nb: &x [1, *x]\n"), "x.yaml:2: an alias (*name) stands inside of what it names");
  EXPECT_EQ(parse_error("a: &x {b: {<<: *x}}\n"), "x.yaml:1: an alias (*name) stands inside of what it names");
  EXPECT_EQ(parse_error("a: &x 1\nb:\n  <<: *x\n"), "x.yaml:3: <<: is not a map of keys (expected *name of a map, or a list of such)");
  EXPECT_EQ(parse_error("b: {<<: [{a: 1}, 2]}\n"), "x.yaml:1: <<: is not a map of keys (expected *name of a map, or a list of such)");
  EXPECT_EQ(parse_error("b: {<<: {a: 1}, <<: {c: 1}}\n"), "x.yaml:1: <<: given twice (first on line 1)");
  EXPECT_EQ(parse_error("b:\n  <<:\n"), "x.yaml:2: <<: is not a map of keys (expected *name of a map, or a list of such)");
}

// Each of these has a few hundred bytes.
TEST(Yaml, files_that_grow_by_aliases_are_refused_before_they_have) {
  std::string lists = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n", maps = "a0: &a0 {x: 1}\n", merges = maps, deep = "a0: &a0 [1]\n";
  std::string anchors = "r: ";
  for (int i = 1; i < 30; ++i) {
    const std::string before = fmt::format("*a{}", i - 1);
    lists += fmt::format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, before);
    maps += fmt::format("a{0}: &a{0} {{p: {1}, q: {1}, r: {1}}}\n", i, before);
    merges += fmt::format("a{0}: &a{0} {{<<: [{1}, {1}, {1}], p{0}: {1}}}\n", i, before);
    anchors += fmt::format("&r{} [", i);
  }
  for (int i = 1; i < 70; ++i) deep += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  anchors = lists.substr(0, lists.find("a6:")) + anchors + "*a4" + std::string(29, ']') + "\n";
  for (const std::string& bomb : {lists, maps, merges, anchors}) {
    EXPECT_NE(parse_error(bomb).find("more than 100000 values by anchors and aliases"), std::string::npos) << bomb << parse_error(bomb);
  }
  EXPECT_NE(parse_error(deep).find("nested deeper than 64 levels"), std::string::npos);
  std::string wide = "a: &a {";
  for (int i = 0; i < 40'000; ++i) wide += fmt::format("k{}: 1, ", i);
  wide += "}\nb: {<<: *a}\n";
  EXPECT_EQ(parse_yaml(wide, "x").find("b")->entries().size(), 40'000u) << "in time that does not grow like a square";
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
