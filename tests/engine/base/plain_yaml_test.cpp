#include "engine/base/plain_yaml.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/file.hpp"
#include "engine/base/rng.hpp"
#include "tests/source_path.hpp"

namespace vitro {
namespace {

// Everything that a node has, in one text.
std::string all_of(const Node& node) {
  std::string text = std::to_string(static_cast<int>(node.kind())) + (node.quoted() ? "q" : "") + "@" + node.origin().str();
  if (node.is_scalar()) text += "'" + node.text() + "'";
  for (const Node& item : node.items()) text += "[" + all_of(item) + "]";
  for (const auto& [key, value] : node.entries()) text += "{" + key + ":" + all_of(value) + "}";
  return text;
}

std::string by_any(const std::string& text) {
  try {
    return all_of(parse_any_yaml(text, "x.yaml"));
  } catch (const ConfigError&) {
    return "refused";
  }
}

// What it reads, it reads as yaml-cpp does. Returns whether it does.
bool agrees(const std::string& text) {
  const std::optional<Node> plain = parse_plain_yaml(text, "x.yaml");
  if (!plain) return false;
  EXPECT_EQ(all_of(*plain), by_any(text)) << text;
  return true;
}

TEST(PlainYaml, reads_every_file_of_ours_that_it_reads_as_the_other_reader_does) {
  std::size_t read = 0, tables = 0;
  for (const char* const folder : {"configs", "experiments"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path(folder))) {
      if (entry.path().extension() != ".yaml") continue;
      const bool agreed = agrees(read_text(entry.path().string()));
      read += agreed ? 1 : 0;
      tables += agreed && entry.path().parent_path().filename() == "kernels" ? 1 : 0;
    }
  }
  EXPECT_GT(read, 20u);
  EXPECT_GE(tables, 10u) << "price tables, which are what it is for";
}

TEST(PlainYaml, reads_maps_numbers_words_and_quoted_texts) {
  for (const char* const text : {
           "a: 1\n", "a: 1", "a:  1  \n", "a: 59.6 GB/s\n", "a: 50%\nb: x(1)*2\n", "a: \"\"\n", "a: \"x: #, {}\"  # c\n", "a: -1 b\n",
           "\n# c\na:\n  b: 1  # d\n\n  c: {d: -1.5e3, e: \"f\"}\ng: h\n", "a:\n    b:\n     c: 1\n    d: +2\n", "a:\n  # c\n  b: 1\n",
           "a: {b: {c: .5}, d: w4g64z}  # e\n", "a: { b: 1 , c: 2 }\n"}) {
    EXPECT_TRUE(agrees(text)) << text;
  }
}

TEST(PlainYaml, declines_everything_else) {
  for (const char* const text : {
           "", "# c\n", " a: 1\n", "a:\n", "a:\nb: 1\n", "a: null\n", "a: ~\n", "a: NULL\n", "null: 1\n", "1: a\n", "a: [1]\n", "- a\n",
           "a: 'b'\n", "a: \"b\\n\"\n", "a: \"b\n  c\"\n", "a: b\n  c\n", "a: b\n  c: d\n", "a: &b c\n", "a: *b\n", "<<: {a: 1}\n",
           "a: |\n  b\n", "a: >\n  b\n", "a: !!str b\n", "---\na: 1\n", "a: 1\n...\n", "a:1\n", "a: b: c\n", "a: {}\n", "a: {b}\n",
           "a: {b: }\n", "a: {b: 1,}\n", "a: {b: 1\n  }\n", "a: {b: 1} c\n", "a: {b:1}\n", "a: 1\na: 2\n", "a:\n  b: 1\n c: 2\n",
           "\ta: 1\n", "a:\t1\n", "a: 1\r\n", "a: b#c\n", "a: {b: c #d}\n", "? a\n: b\n", "%YAML 1.2\na: 1\n", "a: \xc3\xa9\n",
           "a: 1 # \x04\nb: 2\n", "a: b, c\n", "a: \"b\"c\n", "a: {b: \"c\"d}\n", "a: - b\n", "a: -x\n"}) {
    EXPECT_FALSE(agrees(text)) << text;
  }
}

// Joined at random: it never reads what the other one does not, or otherwise.
TEST(PlainYaml, agrees_on_texts_drawn_from_pieces) {
  const std::vector<std::string> pieces = {"a",  "b",   ": ",  ":",    "\n",      "\n", "\n  ", "\n    ", "{",   "}", ", ", "1.5",
                                           " # c", "\"t\"", "-", " ", "null", "x y", "#",  "'",     "[",      "]",   "e: "};
  Rng rng(5);
  std::size_t read = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string text = "a: ";
    for (std::uint64_t n = rng.below(12); n > 0; --n) text += pieces[rng.below(pieces.size())];
    read += agrees(text) ? 1 : 0;
  }
  EXPECT_GT(read, 500u);
}

}  // namespace
}  // namespace vitro
