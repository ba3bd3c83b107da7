#include "engine/model/byte_bpe.hpp"

#include <fmt/format.h>

#include <queue>
#include <set>
#include <tuple>

#include "engine/base/check.hpp"
#include "engine/base/utf8.hpp"
#include "engine/model/gguf.hpp"

namespace vitro {
namespace {

// The printable stand-ins of bytes in vocabularies: a byte that is a printable Latin-1 character stands for itself, the
// others take the code points from 256 on, in order.
constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

constexpr std::array<std::int16_t, 512> make_alphabet() {
  std::array<std::int16_t, 512> byte_of{};
  byte_of.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    byte_of[static_cast<std::size_t>(stands_for_itself(byte) ? byte : next++)] = static_cast<std::int16_t>(byte);
  }
  return byte_of;
}
constexpr std::array<std::int16_t, 512> kByteOf = make_alphabet();

// The bytes that a vocabulary string stands for; nullopt when it is not written in the alphabet.
std::optional<std::string> to_bytes(std::string_view token) {
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Symbol symbol = front_symbol(token.substr(at));
    if (symbol.code_point < 0 || symbol.code_point >= static_cast<std::int32_t>(kByteOf.size())) return std::nullopt;
    const std::int16_t byte = kByteOf[static_cast<std::size_t>(symbol.code_point)];
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
    at += symbol.length;
  }
  return out;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

struct Part {
  std::int32_t id;  // -1: merged into its left neighbour
  std::int32_t before, after;
};

struct Candidate {
  std::uint32_t rank;
  std::int32_t left, right, left_id, right_id;
  // The queue gives the lowest rank, and of equal ones the leftmost.
  bool operator<(const Candidate& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
};

}  // namespace

ByteBpeTokenizer::ByteBpeTokenizer(const Gguf& gguf)
    : Tokenizer(gguf, false), tokens_(gguf.strings("tokenizer.ggml.tokens")), types_(token_types(gguf, tokens_.size())) {
  const std::string& pre = gguf.text("tokenizer.ggml.pre");
  const auto words = pretokeniser_by_name(pre);
  if (!words) gguf.fail("tokenizer.ggml.pre", fmt::format("\"{}\" is not supported (expected one of: {})", pre, pretokeniser_names()));
  words_ = *words;
  whole_words_first_ = words_ == Pretokeniser::llama_bpe;

  bytes_.fill(-1);
  std::set<std::size_t, std::greater<>> lengths;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    std::string& token = tokens_[i];
    if (types_[i] == TokenType::normal || types_[i] == TokenType::byte) {
      auto bytes = to_bytes(token);
      if (!bytes || bytes->empty()) continue;  // no text makes it, but it can be written out
      token = std::move(*bytes);
      normal_.emplace(token, id);  // of equal tokens the first
      if (token.size() == 1 && bytes_[static_cast<unsigned char>(token[0])] < 0) bytes_[static_cast<unsigned char>(token[0])] = id;
    } else if ((types_[i] == TokenType::control || types_[i] == TokenType::user_defined) && !token.empty()) {
      added_.emplace(token, id);
      lengths.insert(token.size());
      starts_added_[static_cast<unsigned char>(token[0])] = true;
    }
  }
  added_lengths_.assign(lengths.begin(), lengths.end());
  read_merges(gguf);
}

void ByteBpeTokenizer::read_merges(const Gguf& gguf) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  const std::vector<std::string>& lines = gguf.strings(kKey);
  const auto bad = [&](std::size_t line, std::string_view problem) {
    gguf.fail(kKey, fmt::format("merge {}, \"{}\", {}", line, lines[line], problem));
  };
  const auto id_of = [&](std::size_t line, const std::string& bytes) {
    const auto found = normal_.find(bytes);
    if (found == normal_.end()) bad(line, "needs a token that is not in the vocabulary");
    return found->second;
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t space = lines[i].find(' ', 1);
    if (space == std::string::npos) bad(i, "is not two tokens");
    const auto left = to_bytes(std::string_view(lines[i]).substr(0, space)), right = to_bytes(std::string_view(lines[i]).substr(space + 1));
    if (!left || !right || left->empty() || right->empty()) bad(i, "is not two tokens");
    merges_.emplace(pair_key(id_of(i, *left), id_of(i, *right)), Merge{static_cast<std::uint32_t>(i), id_of(i, *left + *right)});
  }
}

const ByteBpeTokenizer::Merge* ByteBpeTokenizer::merge(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::size_t ByteBpeTokenizer::added_at(std::string_view text) const {
  if (!starts_added_[static_cast<unsigned char>(text[0])]) return 0;
  for (const std::size_t length : added_lengths_) {
    if (length <= text.size() && added_.contains(text.substr(0, length))) return length;
  }
  return 0;
}

std::vector<std::int32_t> ByteBpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  std::size_t plain = 0, at = 0;
  while (at < text.size()) {
    const std::size_t length = added_at(text.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    encode_plain(text.substr(plain, at - plain), out);
    out.push_back(added_.at(text.substr(at, length)));
    plain = at += length;
  }
  encode_plain(text.substr(plain), out);
  return out;
}

void ByteBpeTokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& out) const {
  for (const std::string_view word : pretokenise(words_, text)) {
    const auto whole = whole_words_first_ ? normal_.find(word) : normal_.end();
    if (whole != normal_.end()) {
      out.push_back(whole->second);
    } else {
      encode_word(word, out);
    }
  }
}

void ByteBpeTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& out) const {
  std::vector<Part> parts;
  for (const char c : word) {
    const std::int32_t id = bytes_[static_cast<unsigned char>(c)] >= 0 ? bytes_[static_cast<unsigned char>(c)] : unknown_.value_or(-1);
    const auto index = static_cast<std::int32_t>(parts.size());
    if (id >= 0) parts.push_back({id, index - 1, index + 1});
  }
  if (parts.empty()) return;
  parts.back().after = -1;

  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const std::int32_t a = parts[static_cast<std::size_t>(left)].id, b = parts[static_cast<std::size_t>(right)].id;
    if (const Merge* found = merge(a, b)) queue.push({found->rank, left, right, a, b});
  };
  for (std::size_t i = 1; i < parts.size(); ++i) consider(static_cast<std::int32_t>(i) - 1, static_cast<std::int32_t>(i));

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Part &a = parts[static_cast<std::size_t>(best.left)], &b = parts[static_cast<std::size_t>(best.right)];
    if (a.id != best.left_id || b.id != best.right_id) continue;  // either side has changed meanwhile
    a.id = merge(best.left_id, best.right_id)->id;
    a.after = b.after;
    b.id = -1;
    if (b.after >= 0) parts[static_cast<std::size_t>(b.after)].before = best.left;
    consider(a.before, best.left);
    consider(best.left, a.after);
  }
  for (const Part& part : parts) {
    if (part.id >= 0) out.push_back(part.id);
  }
}

std::string ByteBpeTokenizer::piece(std::int32_t id) const {
  check_id(id);
  return types_[static_cast<std::size_t>(id)] == TokenType::control ? "" : tokens_[static_cast<std::size_t>(id)];
}

}  // namespace vitro
