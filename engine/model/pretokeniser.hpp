// Cuts text into the words that byte-level BPE merges within. The published patterns, as hand-written scanners: regular
// expressions with look-ahead over Unicode classes are not in the standard library, and backtracking is not needed.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace vitro {

enum class Pretokeniser : std::uint8_t {
  gpt2,       // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  llama_bpe,  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  qwen2,      // the same, with single digits: \p{N}
};

// The values of `tokenizer.ggml.pre` that mean one of these patterns.
std::optional<Pretokeniser> pretokeniser_by_name(std::string_view name);

// The words, in order; together they are the whole text. A byte that is no UTF-8 counts as a symbol that is neither
// letter, number nor space.
std::vector<std::string_view> pretokenise(Pretokeniser kind, std::string_view text);

}  // namespace vitro
