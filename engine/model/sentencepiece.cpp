#include "engine/model/sentencepiece.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>

#include "engine/base/check.hpp"
#include "engine/base/utf8.hpp"
#include "engine/model/gguf.hpp"

namespace vitro {
namespace {

constexpr std::string_view kSpace = "\u2581";      // stands for a space inside pieces
constexpr std::string_view kUnknown = " \u2047 ";  // what SentencePiece writes for a piece it does not know

std::string escape_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += kSpace;
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescape_spaces(std::string_view piece) {
  std::string out;
  for (std::size_t i = 0; i < piece.size();) {
    const bool space = piece.substr(i).starts_with(kSpace);
    out += space ? ' ' : piece[i];
    i += space ? kSpace.size() : 1;
  }
  return out;
}

// "<0x1F>" gives 31; anything else nullopt.
std::optional<int> byte_value(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9', letter = c >= 'A' && c <= 'F';
    if (!digit && !letter) return std::nullopt;
    value = value * 16 + (digit ? c - '0' : c - 'A' + 10);
  }
  return value;
}

// A node of the list of symbols that text has been merged into so far. length 0: merged into its left neighbour.
struct Symbol {
  std::size_t start, length;
  std::int64_t before, after;  // -1: none
  bool frozen;                 // user-defined: takes part in no merge
};

struct Candidate {
  float score;
  std::int64_t left, right;
  std::size_t length;  // of both when queued: a candidate is void once either side has changed
  // The queue gives the highest score, and of equal ones the leftmost.
  bool operator<(const Candidate& other) const { return score != other.score ? score < other.score : left > other.left; }
};

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const Gguf& gguf)
    : Tokenizer(gguf, true),
      tokens_(gguf.strings("tokenizer.ggml.tokens")),
      types_(token_types(gguf, tokens_.size())),
      scores_(gguf.floats("tokenizer.ggml.scores")) {
  if (scores_.size() != tokens_.size()) {
    gguf.fail("tokenizer.ggml.scores", fmt::format("{} scores for {} tokens", scores_.size(), tokens_.size()));
  }
  if (gguf.boolean("tokenizer.ggml.remove_extra_whitespaces", false)) {
    gguf.fail("tokenizer.ggml.remove_extra_whitespaces", "is not supported");
  }
  add_space_prefix_ = gguf.boolean("tokenizer.ggml.add_space_prefix", true);
  bytes_.fill(-1);
  std::set<std::size_t, std::greater<>> user_lengths;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (!std::isfinite(scores_[i])) gguf.fail("tokenizer.ggml.scores", fmt::format("the score of token {} is not finite", i));
    if (types_[i] == TokenType::byte) {
      const auto value = byte_value(tokens_[i]);
      if (!value) gguf.fail("tokenizer.ggml.tokens", fmt::format("byte token {} is \"{}\" (expected <0x00> to <0xFF>)", i, tokens_[i]));
      if (bytes_[*value] < 0) bytes_[*value] = id;
    } else if ((types_[i] == TokenType::normal || types_[i] == TokenType::user_defined) && !tokens_[i].empty()) {
      ids_.emplace(tokens_[i], id);  // of equal pieces the first
      longest_ = std::max(longest_, tokens_[i].size());
      if (types_[i] == TokenType::user_defined) user_lengths.insert(tokens_[i].size());
    }
  }
  user_lengths_.assign(user_lengths.begin(), user_lengths.end());
}

std::optional<SentencePieceTokenizer::Match> SentencePieceTokenizer::find(std::string_view piece) const {
  if (piece.size() > longest_) return std::nullopt;
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return std::nullopt;
  return Match{found->second, scores_[static_cast<std::size_t>(found->second)]};
}

std::size_t SentencePieceTokenizer::user_defined_at(std::string_view text) const {
  for (const std::size_t length : user_lengths_) {
    if (length > text.size()) continue;
    const auto found = ids_.find(text.substr(0, length));
    if (found != ids_.end() && types_[static_cast<std::size_t>(found->second)] == TokenType::user_defined) return length;
  }
  return 0;
}

void SentencePieceTokenizer::spell(std::string_view symbol, std::vector<std::int32_t>& out) const {
  const bool spellable = std::all_of(symbol.begin(), symbol.end(), [&](char c) { return bytes_[static_cast<unsigned char>(c)] >= 0; });
  if (spellable) {
    for (const char c : symbol) out.push_back(bytes_[static_cast<unsigned char>(c)]);
  } else if (unknown_) {
    out.push_back(*unknown_);
  } else {
    throw ConfigError(fmt::format("{}: the vocabulary has neither byte tokens nor an unknown token for some of this text", source_));
  }
}

std::vector<std::int32_t> SentencePieceTokenizer::encode(std::string_view input) const {
  if (input.empty()) return {};
  std::string text(add_space_prefix_ ? kSpace : "");
  text += escape_spaces(input);
  const std::string_view all(text);

  std::vector<Symbol> symbols;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t user = user_defined_at(all.substr(at));
    const std::size_t length = user > 0 ? user : front_symbol(all.substr(at)).length;
    const auto index = static_cast<std::int64_t>(symbols.size());
    symbols.push_back({at, length, index - 1, at + length < all.size() ? index + 1 : -1, user > 0});
    at += length;
  }

  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int64_t left, std::int64_t right) {
    if (left < 0 || right < 0) return;
    const Symbol &a = symbols[static_cast<std::size_t>(left)], &b = symbols[static_cast<std::size_t>(right)];
    if (a.frozen || b.frozen) return;
    if (const auto match = find(all.substr(a.start, a.length + b.length))) queue.push({match->score, left, right, a.length + b.length});
  };
  for (std::size_t i = 1; i < symbols.size(); ++i) consider(static_cast<std::int64_t>(i) - 1, static_cast<std::int64_t>(i));

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol &a = symbols[static_cast<std::size_t>(best.left)], &b = symbols[static_cast<std::size_t>(best.right)];
    // Lengths only grow while a symbol lives, so an equal sum means that neither side has changed.
    if (a.length == 0 || b.length == 0 || a.length + b.length != best.length) continue;
    a.length = best.length;
    b.length = 0;
    a.after = b.after;
    if (b.after >= 0) symbols[static_cast<std::size_t>(b.after)].before = best.left;
    consider(a.before, best.left);
    consider(best.left, a.after);
  }

  std::vector<std::int32_t> out;
  for (const Symbol& symbol : symbols) {
    if (symbol.length == 0) continue;
    const std::string_view piece = all.substr(symbol.start, symbol.length);
    if (const auto match = find(piece)) {
      out.push_back(match->id);
    } else {
      spell(piece, out);
    }
  }
  return out;
}

std::string SentencePieceTokenizer::piece(std::int32_t id) const {
  check_id(id);
  const std::string& token = tokens_[static_cast<std::size_t>(id)];
  switch (types_[static_cast<std::size_t>(id)]) {
    case TokenType::control:
      return "";
    case TokenType::unknown:
      return std::string(kUnknown);
    case TokenType::byte:
      return std::string(1, static_cast<char>(*byte_value(token)));
    default:
      return unescape_spaces(token);
  }
}

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text = Tokenizer::decode(ids);
  if (add_space_prefix_ && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace vitro
