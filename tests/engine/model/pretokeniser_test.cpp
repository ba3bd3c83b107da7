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
    for (const Pretokeniser kind : {Pretokeniser::gpt2, Pretokeniser::llama_bpe, Pretokeniser::qwen2}) {
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
}

}  // namespace
}  // namespace vitro
