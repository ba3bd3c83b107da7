// Cuts text into the words that byte-level BPE merges within. The published patterns, as hand-written scanners: regular
// expressions with look-ahead over Unicode classes are not in the standard library, and backtracking is not needed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vitro {

// Each is a list of splitters, as the `pre_tokenizer` of published tokenizer.json files: what one matches is a piece, what lies between is
// cut by the next one. A pattern is a splitter that matches everything.
enum class Pretokeniser : std::uint8_t {
  gpt2,       // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  llama_bpe,  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  qwen2,      // the same, with single digits: \p{N}
  qwen35,     // the same, with [\p{L}\p{M}]+ for letters, and marks not among what is neither
  // [^\r\n\p{L}\p{N}]?U*W+C?|[^\r\n\p{L}\p{N}]?U+W*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ with
  // U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W = [\p{Ll}\p{Lm}\p{Lo}\p{M}], C = (?i:'s|'t|'re|'ve|'m|'ll|'d)
  gpt4o,
  starcoder,       // each digit (Digits); gpt2
  falcon,          // runs of punctuation (Punctuation); gpt2; then of the bytes, written as GPT-2 writes them: runs of digits; [0-9]{3}
  deepseek_llm,    // [\r\n]; \s?[cased letters]+; \s?[punctuation]+; \s+$; [East Asian]+; each digit
  deepseek_coder,  // [\r\n]; \s?\p{L}+; \s?\p{P}+; [East Asian]+; each digit
};

// The values of `tokenizer.ggml.pre` that mean one of these.
std::optional<Pretokeniser> pretokeniser_by_name(std::string_view name);
std::string pretokeniser_names();  // "gpt-2, phi-2, ...", for messages

// The words, in order; together they are the whole text. A byte that is no UTF-8 counts as a symbol without any trait.
std::vector<std::string_view> pretokenise(Pretokeniser kind, std::string_view text);

}  // namespace vitro
