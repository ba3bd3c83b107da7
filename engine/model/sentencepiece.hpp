// SentencePiece BPE (Kudo and Richardson 2018) as Llama and Mistral use it: merge the best-scored pair until none is in the
// vocabulary, spell what is left in byte tokens. Control pieces are never made from text; user-defined ones always are.
#pragma once
#include <array>
#include <unordered_map>

#include "engine/model/tokenizer.hpp"

namespace vitro {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const Gguf& gguf);

  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string piece(std::int32_t id) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;

 private:
  struct Match {
    std::int32_t id;
    float score;
  };
  std::optional<Match> find(std::string_view piece) const;
  std::size_t user_defined_at(std::string_view text) const;  // length of the longest one at the front, or 0
  void spell(std::string_view symbol, std::vector<std::int32_t>& out) const;

  std::vector<std::string> tokens_;
  std::vector<TokenType> types_;
  std::vector<float> scores_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // of pieces that text may become; views into tokens_
  std::vector<std::size_t> user_lengths_;                   // of user-defined pieces, descending, without repeats
  std::array<std::int32_t, 256> bytes_{};                   // -1: the vocabulary has no such byte token
  std::size_t longest_ = 0;
  bool add_space_prefix_ = true;
};

}  // namespace vitro
