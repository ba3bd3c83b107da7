#include "engine/model/byte_bpe.hpp"

#include <nlohmann/json.hpp>

#include "engine/model/pretokeniser.hpp"
#include "engine/model/unicode_tables.hpp"
#include "engine/model/utf8.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using Ids = std::vector<std::int32_t>;

// Written by bpe_fixture.py from the packages `tokenizers` and `regex`.
const nlohmann::json& fixture() {
  static const nlohmann::json data = nlohmann::json::parse(read_file(VITRO_SOURCE_DIR "/tests/engine/model/bpe_fixture.json"));
  return data;
}

struct Vocabulary {
  std::string pre;
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
  std::vector<std::pair<std::string, GgufValue>> extra;

  void write(const std::string& path) const {
    GgufWriter out(path);
    out.add("tokenizer.ggml.model", std::string("gpt2"));
    if (!pre.empty()) out.add("tokenizer.ggml.pre", pre);
    out.add("tokenizer.ggml.tokens", gguf_array(tokens));
    out.add("tokenizer.ggml.token_type", gguf_array(types));
    out.add("tokenizer.ggml.merges", gguf_array(merges));
    for (const auto& [key, value] : extra) out.add(key, value);
    out.commit();
  }
};

Vocabulary vocabulary(const std::string& pre) {
  const nlohmann::json& model = fixture()["models"][pre];
  Vocabulary v{pre, model["tokens"], model["merges"], {}, {}};
  v.types.assign(v.tokens.size(), 1);
  const std::size_t added = model["added"];
  std::fill(v.types.end() - static_cast<std::ptrdiff_t>(added), v.types.end(), 3);
  return v;
}

std::unique_ptr<Tokenizer> loaded(const Vocabulary& v) {
  const ScratchFolder folder;
  v.write(folder / "v.gguf");
  return Tokenizer::from_gguf(Gguf::open(folder / "v.gguf"));
}

TEST(ByteBpe, gives_the_ids_of_the_tokenizers_package) {
  const auto texts = fixture()["texts"].get<std::vector<std::string>>();
  ASSERT_GT(texts.size(), 100u);
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2"}) {
    const auto tokenizer = loaded(vocabulary(pre));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer->encode(texts[i]), fixture()["models"][pre]["ids"][i].get<Ids>()) << pre << " text " << i << ": " << texts[i];
    }
  }
}

TEST(Pretokeniser, cuts_where_the_published_patterns_cut) {
  const auto texts = fixture()["texts"].get<std::vector<std::string>>();
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2"}) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto words = pretokenise(*pretokeniser_by_name(pre), texts[i]);
      const std::vector<std::string> got(words.begin(), words.end());
      EXPECT_EQ(got, fixture()["models"][pre]["words"][i].get<std::vector<std::string>>()) << pre << " text " << i;
    }
  }
}

TEST(ByteBpe, text_survives_a_round_trip_and_so_do_malformed_bytes) {
  const auto tokenizer = loaded(vocabulary("qwen2"));
  Rng rng(4);
  for (int round = 0; round < 300; ++round) {
    std::string text(rng.below(60), '\0');
    for (char& c : text) c = static_cast<char>(rng.below(256));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_TRUE(tokenizer->encode("").empty());
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
  EXPECT_GT(loaded(vocabulary("gpt-2"))->encode(letters).size(), 0u);
}

TEST(UnicodeTables, ranges_ascend_and_classes_are_those_of_well_known_characters) {
  std::int32_t end = -1;
  for (const CharRange& range : char_ranges()) {
    EXPECT_GT(range.first, end);
    EXPECT_LE(range.first, range.last);
    end = range.last;
  }
  EXPECT_EQ(char_class('z'), CharClass::letter);
  EXPECT_EQ(char_class(0x4f60), CharClass::letter);
  EXPECT_EQ(char_class('7'), CharClass::number);
  EXPECT_EQ(char_class(0x2167), CharClass::number);
  EXPECT_EQ(char_class(0x3000), CharClass::space);
  EXPECT_EQ(char_class('_'), CharClass::other);
  EXPECT_EQ(char_class(0x301), CharClass::other);
  EXPECT_EQ(char_class(-1), CharClass::other);
}

TEST(Utf8, malformed_sequences_are_single_bytes) {
  const auto length = [](std::string_view text) { return front_symbol(text).code_point < 0 ? -1 : static_cast<int>(front_symbol(text).length); };
  EXPECT_EQ(length("a"), 1);
  EXPECT_EQ(length("\xc3\xa9"), 2);
  EXPECT_EQ(length("\xf4\x8f\xbf\xbf"), 4);
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe4\xbd", "\xc3(", "\xf8\x88\x80\x80"}) {
    EXPECT_EQ(length(bad), -1);
  }
}

TEST(ByteBpe, inconsistent_data_is_refused_by_key) {
  const auto error = [](auto change) {
    Vocabulary v = vocabulary("gpt-2");
    change(v);
    return message_of([&] { loaded(v); });
  };
  const auto has = [](const std::string& message, std::string_view part) { return message.find(part) != std::string::npos; };
  EXPECT_TRUE(has(error([](auto& v) { v.pre = "tekken"; }), "tokenizer.ggml.pre: \"tekken\""));
  EXPECT_TRUE(has(error([](auto& v) { v.pre.clear(); }), "tokenizer.ggml.pre: the key is missing"));
  EXPECT_TRUE(has(error([](auto& v) { v.types.pop_back(); }), "tokenizer.ggml.token_type"));
  EXPECT_TRUE(has(error([](auto& v) { v.types[3] = 9; }), "token 3 has type 9"));
  EXPECT_TRUE(has(error([](auto& v) { v.merges[0] = "ab"; }), "is not two tokens"));
  EXPECT_TRUE(has(error([](auto& v) { v.merges[0] = " "; }), "is not two tokens"));
  EXPECT_TRUE(has(error([](auto& v) { v.merges[0] = "zz qq"; }), "not in the vocabulary"));
  EXPECT_TRUE(has(error([](auto& v) { v.tokens.clear(), v.types.clear(); }), "0 tokens"));
  EXPECT_TRUE(has(error([](auto& v) { v.extra = {{"tokenizer.ggml.bos_token_id", std::uint32_t{100000}}}; }), "bos_token_id"));
  EXPECT_TRUE(has(error([](auto& v) { v.extra = {{"tokenizer.ggml.add_bos_token", true}}; }), "add_bos_token"));
}

TEST(ByteBpe, bytes_without_a_token_become_unknown_or_are_left_out) {
  Vocabulary v{"gpt-2", {"<unk>", "a", "b", "ab"}, {"a b"}, {2, 1, 1, 1}, {}};
  EXPECT_EQ(loaded(v)->encode("abza"), (Ids{3, 1}));
  v.extra = {{"tokenizer.ggml.unknown_token_id", std::uint32_t{0}}};
  EXPECT_EQ(loaded(v)->encode("abza"), (Ids{3, 0, 1}));
}

}  // namespace
}  // namespace vitro
