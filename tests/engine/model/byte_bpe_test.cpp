#include "engine/model/byte_bpe.hpp"

#include "tests/engine/model/bpe_fixture.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using Ids = std::vector<std::int32_t>;

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
  const nlohmann::json& model = bpe_fixture()["models"][pre];
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
  const auto texts = bpe_fixture()["texts"].get<std::vector<std::string>>();
  ASSERT_GT(texts.size(), 100u);
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2"}) {
    const auto tokenizer = loaded(vocabulary(pre));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer->encode(texts[i]), bpe_fixture()["models"][pre]["ids"][i].get<Ids>()) << pre << " text " << i << ": " << texts[i];
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

TEST(ByteBpe, inconsistent_data_is_refused_by_key) {
  const auto error = [](auto change) {
    Vocabulary v = vocabulary("gpt-2");
    change(v);
    return message_of([&] { loaded(v); });
  };
  const auto has = [](const std::string& message, std::string_view part) { return message.find(part) != std::string::npos; };
  EXPECT_TRUE(has(error([](auto& v) { v.pre = "tekken"; }), "\"tekken\" is not supported (expected one of: gpt-2, phi-2, "));
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

TEST(ByteBpe, a_word_of_a_quarter_megabyte_is_merged) {
  const std::string letters(1 << 18, 'a');
  const auto tokenizer = loaded(vocabulary("gpt-2"));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(letters)), letters);
}

}  // namespace
}  // namespace vitro
