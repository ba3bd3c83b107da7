// Text to token ids and back, from the tokenizer data inside a GGUF file.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitro {

class Gguf;

// Immutable after construction: any thread may use it. Any byte string can be encoded; bytes that are no UTF-8 become
// byte tokens. Time is O(n log n) in the length of the text.
class Tokenizer {
 public:
  // `tokenizer.ggml.model` llama (SentencePiece BPE) or gpt2 (byte-level BPE). Throws ConfigError when the data is
  // absent, inconsistent or of another kind.
  static std::unique_ptr<Tokenizer> from_gguf(const Gguf& gguf);
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Ids without BOS and EOS.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  // The bytes that a token adds to a text: a continuation is the concatenation of its pieces. Control tokens add none.
  // Throws ConfigError when the id is outside the vocabulary.
  virtual std::string piece(std::int32_t id) const = 0;

  // The whole text of a sequence from its start: decode(encode(t)) == t for every t whose bytes all have tokens
  // (but SentencePiece can not tell U+2581 from a space). Differs from the pieces by the space that SentencePiece puts
  // before a text.
  virtual std::string decode(std::span<const std::int32_t> ids) const;

  std::int32_t size() const { return size_; }
  std::optional<std::int32_t> bos() const { return bos_; }
  std::optional<std::int32_t> eos() const { return eos_; }
  bool add_bos() const { return add_bos_; }

 protected:
  explicit Tokenizer(const Gguf& gguf, bool add_bos_by_default);
  void check_id(std::int32_t id) const;

  std::string source_;  // the file, for messages
  std::int32_t size_ = 0;
  std::optional<std::int32_t> bos_, eos_, unknown_;
  bool add_bos_ = false;
};

// As in `tokenizer.ggml.token_type`.
enum class TokenType : std::int32_t { normal = 1, unknown, control, user_defined, unused, byte };

// The token types of a file; all normal when it has none. Throws ConfigError on a wrong length or an unknown type.
std::vector<TokenType> token_types(const Gguf& gguf, std::size_t count);

}  // namespace vitro
