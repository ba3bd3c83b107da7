#include "engine/model/tokenizer.hpp"

#include <fmt/format.h>

#include "engine/base/check.hpp"
#include "engine/model/byte_bpe.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/sentencepiece.hpp"

namespace vitro {
namespace {

constexpr std::size_t kMaxTokens = 1u << 24;

std::optional<std::int32_t> token_id(const Gguf& gguf, const std::string& key, std::int32_t size) {
  if (!gguf.has(key)) return std::nullopt;
  return static_cast<std::int32_t>(gguf.integer(key, 0, static_cast<std::uint64_t>(size) - 1));
}

}  // namespace

Tokenizer::Tokenizer(const Gguf& gguf, bool add_bos_by_default) : source_(gguf.path()) {
  const std::size_t count = gguf.strings("tokenizer.ggml.tokens").size();
  if (count == 0 || count > kMaxTokens) gguf.fail("tokenizer.ggml.tokens", fmt::format("{} tokens (expected 1 to {})", count, kMaxTokens));
  size_ = static_cast<std::int32_t>(count);
  bos_ = token_id(gguf, "tokenizer.ggml.bos_token_id", size_);
  eos_ = token_id(gguf, "tokenizer.ggml.eos_token_id", size_);
  unknown_ = token_id(gguf, "tokenizer.ggml.unknown_token_id", size_);
  add_bos_ = gguf.boolean("tokenizer.ggml.add_bos_token", add_bos_by_default && bos_.has_value());
  if (add_bos_ && !bos_) gguf.fail("tokenizer.ggml.add_bos_token", "is true, but there is no tokenizer.ggml.bos_token_id");
}

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const Gguf& gguf) {
  const std::string& model = gguf.text("tokenizer.ggml.model");
  if (model == "llama") return std::make_unique<SentencePieceTokenizer>(gguf);
  if (model == "gpt2") return std::make_unique<ByteBpeTokenizer>(gguf);
  gguf.fail("tokenizer.ggml.model", fmt::format("\"{}\" is not supported (expected llama or gpt2)", model));
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += piece(id);
  return text;
}

void Tokenizer::check_id(std::int32_t id) const {
  if (id < 0 || id >= size_) throw ConfigError(fmt::format("{}: token id {} is outside the vocabulary of {}", source_, id, size_));
}

std::vector<TokenType> token_types(const Gguf& gguf, std::size_t count) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<TokenType> types(count, TokenType::normal);
  if (!gguf.has(kKey)) return types;
  const std::vector<std::int32_t> raw = gguf.integers(kKey);
  if (raw.size() != count) gguf.fail(kKey, fmt::format("{} types for {} tokens", raw.size(), count));
  for (std::size_t i = 0; i < count; ++i) {
    if (raw[i] < 1 || raw[i] > 6) gguf.fail(kKey, fmt::format("token {} has type {} (expected 1 to 6)", i, raw[i]));
    types[i] = static_cast<TokenType>(raw[i]);
  }
  return types;
}

}  // namespace vitro
