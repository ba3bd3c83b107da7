#include "engine/model/sentencepiece.hpp"

#include <nlohmann/json.hpp>

#include "tests/engine/model/sha256.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using Ids = std::vector<std::int32_t>;

nlohmann::json reference() { return nlohmann::json::parse(read_file(embedded("reference.json"))); }

std::unique_ptr<Tokenizer> embedded_tokenizer() { return Tokenizer::from_gguf(Gguf::open(embedded("stories-reglu-3m.f16.gguf"))); }

TEST(SentencePiece, reproduces_the_samples_of_the_training_framework) {
  const auto tokenizer = embedded_tokenizer();
  const nlohmann::json samples = reference()["tokenizer"]["samples"];
  ASSERT_GT(samples.size(), 3u);
  for (const auto& sample : samples) {
    const std::string text = sample["text"];
    EXPECT_EQ(tokenizer->encode(text), sample["ids"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(SentencePiece, reproduces_the_hash_of_the_evaluation_text) {
  const auto tokenizer = embedded_tokenizer();
  const nlohmann::json expected = reference()["tokenizer"];
  const std::string text = read_file(embedded("eval.txt"));
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(ids.size(), expected["eval_tokens"].get<std::size_t>());
  const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t));
  EXPECT_EQ(sha256_hex(bytes), expected["eval_sha256_of_int32_le"].get<std::string>());
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(SentencePiece, reads_the_continuations_of_the_reference) {
  const auto tokenizer = embedded_tokenizer();
  const nlohmann::json models = reference()["models"];
  int checked = 0;
  for (const auto& model : models) {
    for (const auto& greedy : model["greedy"]) {
      Ids prompt = tokenizer->encode(greedy["prompt"].get<std::string>());
      prompt.insert(prompt.begin(), *tokenizer->bos());
      EXPECT_EQ(prompt, greedy["prompt_ids"].get<Ids>());
      const Ids ids = greedy["ids"];
      const std::string expected = greedy["text"];
      EXPECT_EQ(tokenizer->decode(ids), expected);
      std::string pieces;
      for (const std::int32_t id : ids) pieces += tokenizer->piece(id);
      EXPECT_TRUE(pieces == expected || pieces == " " + expected) << pieces;  // the space between prompt and text
      ++checked;
    }
  }
  EXPECT_EQ(checked, 8);
}

TEST(SentencePiece, any_bytes_survive_a_round_trip) {
  const auto tokenizer = embedded_tokenizer();
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    std::string text(rng.below(40), '\0');
    for (char& c : text) c = static_cast<char>(rng.below(256));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST(SentencePiece, knows_its_special_tokens) {
  const auto tokenizer = embedded_tokenizer();
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_EQ(tokenizer->piece(1), "");
  EXPECT_NE(message_of([&] { tokenizer->piece(1024); }), "");
  EXPECT_NE(message_of([&] { tokenizer->piece(-1); }), "");
  for (const std::int32_t id : tokenizer->encode("<s>")) EXPECT_NE(id, 1);  // a control piece is never made from text
}

}  // namespace
}  // namespace vitro
