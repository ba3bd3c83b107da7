#include "engine/model/pretokeniser.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/utf8.hpp"
#include "engine/model/unicode_tables.hpp"

namespace vitro {
namespace {

struct Char {
  std::size_t offset;
  std::int32_t code_point;
  CharClass is;
};

class Scanner {
 public:
  Scanner(Pretokeniser kind, std::string_view text) : kind_(kind), text_(text) {
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Symbol symbol = front_symbol(text.substr(at));
      chars_.push_back({at, symbol.code_point, char_class(symbol.code_point)});
      at += symbol.length;
    }
  }

  std::vector<std::string_view> words() const {
    std::vector<std::string_view> out;
    for (std::size_t i = 0; i < chars_.size();) {
      const std::size_t end = kind_ == Pretokeniser::gpt2 ? next_gpt2(i) : next_llama(i);
      out.push_back(text_.substr(chars_[i].offset, offset(end) - chars_[i].offset));
      i = end;
    }
    return out;
  }

 private:
  std::size_t offset(std::size_t i) const { return i < chars_.size() ? chars_[i].offset : text_.size(); }
  bool is(std::size_t i, CharClass wanted) const { return i < chars_.size() && chars_[i].is == wanted; }
  bool is_newline(std::size_t i) const { return i < chars_.size() && (chars_[i].code_point == '\n' || chars_[i].code_point == '\r'); }

  std::size_t run(std::size_t i, CharClass wanted) const {
    while (is(i, wanted)) ++i;
    return i;
  }

  // Equal, or with ignore_case equal under simple case folding: of the letters at hand only s has a partner outside ASCII.
  static bool same(std::int32_t c, char letter, bool ignore_case) {
    if (c == letter) return true;
    return ignore_case && (c == letter - 'a' + 'A' || (letter == 's' && c == 0x17f));
  }

  // The end of 's, 't, 're ... at i, or i.
  std::size_t contraction(std::size_t i, bool ignore_case) const {
    if (chars_[i].code_point != '\'') return i;
    for (const std::string_view tail : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      std::size_t k = 0;
      while (k < tail.size() && i + 1 + k < chars_.size() && same(chars_[i + 1 + k].code_point, tail[k], ignore_case)) ++k;
      if (k == tail.size()) return i + 1 + k;
    }
    return i;
  }

  // \s+(?!\S)|\s+ at a space: the run without its last member when a word follows that may want it.
  std::size_t spaces(std::size_t i) const {
    const std::size_t end = run(i, CharClass::space);
    return end < chars_.size() && end - i > 1 ? end - 1 : end;
  }

  std::size_t next_gpt2(std::size_t i) const {
    if (const std::size_t end = contraction(i, false); end != i) return end;
    const std::size_t word = chars_[i].code_point == ' ' ? i + 1 : i;
    for (const CharClass wanted : {CharClass::letter, CharClass::number, CharClass::other}) {
      if (is(word, wanted)) return run(word, wanted);
    }
    return spaces(i);
  }

  std::size_t next_llama(std::size_t i) const {
    if (const std::size_t end = contraction(i, true); end != i) return end;
    if (is(i, CharClass::letter)) return run(i, CharClass::letter);
    if (!is(i, CharClass::number) && !is_newline(i) && is(i + 1, CharClass::letter)) return run(i + 1, CharClass::letter);
    if (is(i, CharClass::number)) {
      const std::size_t digits = kind_ == Pretokeniser::qwen2 ? 1 : 3;
      return std::min(run(i, CharClass::number), i + digits);
    }
    const std::size_t word = chars_[i].code_point == ' ' ? i + 1 : i;
    if (is(word, CharClass::other)) {
      std::size_t end = run(word, CharClass::other);
      while (is_newline(end)) ++end;
      return end;
    }
    // \s*[\r\n]+ : up to the last line end of the run.
    for (std::size_t end = run(i, CharClass::space); end > i; --end) {
      if (is_newline(end - 1)) return end;
    }
    return spaces(i);
  }

  Pretokeniser kind_;
  std::string_view text_;
  std::vector<Char> chars_;
};

}  // namespace

CharClass char_class(std::int32_t code_point) {
  const auto ranges = char_ranges();
  const auto before = [](std::int32_t c, const CharRange& range) { return c < range.first; };
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code_point, before);
  return after != ranges.begin() && code_point <= (after - 1)->last ? (after - 1)->is : CharClass::other;
}

std::optional<Pretokeniser> pretokeniser_by_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Pretokeniser>, 6> kNames{{{"gpt-2", Pretokeniser::gpt2},
                                                                             {"llama-bpe", Pretokeniser::llama_bpe},
                                                                             {"llama3", Pretokeniser::llama_bpe},
                                                                             {"llama-v3", Pretokeniser::llama_bpe},
                                                                             {"qwen2", Pretokeniser::qwen2},
                                                                             {"deepseek-r1-qwen", Pretokeniser::qwen2}}};
  for (const auto& [known, kind] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::vector<std::string_view> pretokenise(Pretokeniser kind, std::string_view text) { return Scanner(kind, text).words(); }

}  // namespace vitro
