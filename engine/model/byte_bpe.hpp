// Byte-level BPE (Radford et al. 2019): words are byte strings, pairs merge by rank. Added tokens (control and user-defined
// ones) are cut out of the text first, as the `tokenizers` library does.
#pragma once
#include <array>
#include <unordered_map>

#include "engine/model/pretokeniser.hpp"
#include "engine/model/tokenizer.hpp"

namespace vitro {

class ByteBpeTokenizer final : public Tokenizer {
 public:
  explicit ByteBpeTokenizer(const Gguf& gguf);

  // Bytes without a token of their own become the unknown token, or are left out when the file names none.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string piece(std::int32_t id) const override;

 private:
  struct Merge {
    std::uint32_t rank;
    std::int32_t id;
  };
  const Merge* merge(std::int32_t left, std::int32_t right) const;
  void read_merges(const Gguf& gguf);
  std::size_t added_at(std::string_view text) const;  // length of the longest added token at the front, or 0
  void encode_plain(std::string_view text, std::vector<std::int32_t>& out) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& out) const;

  std::vector<std::string> tokens_;  // as bytes, not in the alphabet of the file
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, std::int32_t> normal_, added_;  // views into tokens_
  std::unordered_map<std::uint64_t, Merge> merges_;                    // (left id, right id)
  std::vector<std::size_t> added_lengths_;                             // descending, without repeats
  std::array<bool, 256> starts_added_{};                               // first bytes of added tokens
  std::array<std::int32_t, 256> bytes_{};                              // -1: no such token
  Pretokeniser words_{};
  bool whole_words_first_ = false;  // Llama 3: a word that is a token needs no merges
};

}  // namespace vitro
