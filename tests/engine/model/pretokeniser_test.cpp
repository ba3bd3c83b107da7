#include "engine/model/pretokeniser.hpp"

#include "tests/engine/model/bpe_fixture.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(Pretokeniser, cuts_where_the_published_patterns_cut) {
  const auto texts = bpe_fixture()["texts"].get<std::vector<std::string>>();
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2"}) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto words = pretokenise(*pretokeniser_by_name(pre), texts[i]);
      const std::vector<std::string> got(words.begin(), words.end());
      EXPECT_EQ(got, bpe_fixture()["models"][pre]["words"][i].get<std::vector<std::string>>()) << pre << " text " << i;
    }
  }
}

TEST(Pretokeniser, the_words_are_the_whole_text) {
  Rng rng(5);
  for (int round = 0; round < 1000; ++round) {
    std::string text(rng.below(30), '\0');
    for (char& c : text) c = rng.below(2) ? " \t\n\r'sdL1\xc2\xa0\xe4"[rng.below(13)] : static_cast<char>(rng.below(256));
    for (int k = 0; k <= static_cast<int>(Pretokeniser::deepseek_coder); ++k) {
      const auto kind = static_cast<Pretokeniser>(k);
      std::string joined;
      for (const std::string_view word : pretokenise(kind, text)) {
        EXPECT_FALSE(word.empty());
        joined += word;
      }
      EXPECT_EQ(joined, text);
    }
  }
}

TEST(Pretokeniser, a_megabyte_without_a_break_is_one_word) {
  const std::string spaces(1 << 20, ' '), letters(1 << 20, 'a');
  EXPECT_EQ(pretokenise(Pretokeniser::llama_bpe, spaces).size(), 1u);
  EXPECT_EQ(pretokenise(Pretokeniser::gpt2, letters).size(), 1u);
  EXPECT_EQ(pretokenise(Pretokeniser::gpt4o, letters).size(), 1u);
  EXPECT_EQ(pretokenise(Pretokeniser::deepseek_llm, spaces).size(), 1u);
  EXPECT_EQ(pretokenise(Pretokeniser::deepseek_llm, spaces + "1").size(), 2u);
  const std::string digits(3 << 18, '7');
  EXPECT_EQ(pretokenise(Pretokeniser::llama_bpe, digits).size(), 1u << 18);
  EXPECT_EQ(pretokenise(Pretokeniser::gpt4o, digits).size(), 1u << 18);
}

std::vector<std::string> cut(Pretokeniser kind, std::string_view text) {
  const auto words = pretokenise(kind, text);
  return {words.begin(), words.end()};
}

using Words = std::vector<std::string>;

// tests/python/model/test_bpe.py holds all of them against the package that models are trained with.
TEST(Pretokeniser, each_kind_cuts_in_its_own_way) {
  const std::string_view text = "HTTPServer's  1234, x\u0301";
  EXPECT_EQ(cut(Pretokeniser::gpt2, text), (Words{"HTTPServer", "'s", " ", " 1234", ",", " x", "\u0301"}));
  EXPECT_EQ(cut(Pretokeniser::gpt4o, text), (Words{"HTTPServer's", " ", " ", "123", "4", ",", " x\u0301"}));
  EXPECT_EQ(cut(Pretokeniser::qwen35, text), (Words{"HTTPServer", "'s", " ", " ", "1", "2", "3", "4", ",", " x\u0301"}));
  EXPECT_EQ(cut(Pretokeniser::starcoder, text), (Words{"HTTPServer", "'s", "  ", "1", "2", "3", "4", ",", " x", "\u0301"}));
  EXPECT_EQ(cut(Pretokeniser::falcon, text), (Words{"HTTPServer", "'", "s", " ", " ", "123", "4", ",", " x", "\u0301"}));
  EXPECT_EQ(cut(Pretokeniser::deepseek_llm, text), (Words{"HTTPServer", "'", "s", "  ", "1", "2", "3", "4", ",", " x", "\u0301"}));
  EXPECT_EQ(cut(Pretokeniser::deepseek_coder, text), (Words{"HTTPServer", "'", "s", "  ", "1", "2", "3", "4", ",", " x", "\u0301"}));
}

TEST(Pretokeniser, capitals_end_where_a_word_begins) {
  EXPECT_EQ(cut(Pretokeniser::gpt4o, "ABCdef GHI"), (Words{"ABCdef", " GHI"}));
  EXPECT_EQ(cut(Pretokeniser::gpt4o, "camelCase"), (Words{"camel", "Case"}));
  EXPECT_EQ(cut(Pretokeniser::gpt4o, "A\u02b0B"), (Words{"A\u02b0", "B"}));  // a letter without case ends the first
}

// The second byte of m in Cyrillic is written as a fraction.
TEST(Pretokeniser, falcon_cuts_within_characters) {
  EXPECT_EQ(cut(Pretokeniser::falcon, "\xd0\xbc"), (Words{"\xd0", "\xbc"}));
  EXPECT_EQ(cut(Pretokeniser::falcon, "12\xc2\xbd" "3456"), (Words{"12", "\xc2", "\xbd", "345", "6"}));
}

}  // namespace
}  // namespace vitro
