#include "engine/model/pretokeniser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "engine/base/utf8.hpp"
#include "engine/model/unicode_tables.hpp"

namespace vitro {
namespace {

struct Char {
  std::size_t offset;
  std::int32_t code_point;
  Traits is;
};

struct Interval {
  std::int32_t first, last;
};

bool within(std::int32_t c, std::span<const Interval> intervals) {
  return std::ranges::any_of(intervals, [c](const Interval& i) { return i.first <= c && c <= i.last; });
}

// The letters with case of the Unicode that DeepSeek's tokenizer.json was written with, one interval for each of its pattern.
constexpr Interval kDeepseekLetters[] = {
    {'A', 'Z'},         {'a', 'z'},         {0xb5, 0xb5},       {0xc0, 0xd6},       {0xd8, 0xf6},       {0xf8, 0x1ba},
    {0x1bc, 0x1bf},     {0x1c4, 0x293},     {0x295, 0x2af},     {0x370, 0x373},     {0x376, 0x377},     {0x37b, 0x37d},
    {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},     {0x38c, 0x38c},     {0x38e, 0x3a1},     {0x3a3, 0x3f5},
    {0x3f7, 0x481},     {0x48a, 0x52f},     {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},
    {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},   {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},
    {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},   {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},   {0x1f5b, 0x1f5b},
    {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},   {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},
    {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},   {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210a, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211d},   {0x2124, 0x2124},
    {0x2126, 0x2126},   {0x2128, 0x2128},   {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},   {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},
    {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},   {0xa680, 0xa69b},   {0xa722, 0xa76f},   {0xa771, 0xa787},   {0xa78b, 0xa78e},
    {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},   {0xff21, 0xff3a},   {0xff41, 0xff5a},   {0x10400, 0x1044f},
    {0x104b0, 0x104d3}, {0x104d8, 0x104fb}, {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943}};
constexpr Interval kDeepseekPunctuation[] = {{'!', '/'},         {':', '~'},         {0xff01, 0xff0f},
                                             {0xff1a, 0xff5e},   {0x2018, 0x201f},   {0x3000, 0x3002}};
constexpr Interval kEastAsian[] = {{0x800, 0x9fa5}, {0xac00, 0xd7ff}};  // [\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]

class Scanner {
 public:
  // The end of what a splitter matches at i, or i. Nothing outside the piece counts.
  using Splitter = std::size_t (Scanner::*)(std::size_t i) const;

  explicit Scanner(std::string_view text) : text_(text) {
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Symbol symbol = front_symbol(text.substr(at));
      chars_.push_back({at, symbol.code_point, char_traits(symbol.code_point)});
      at += symbol.length;
    }
  }

  std::vector<std::string_view> words(std::span<const Splitter> splitters) {
    std::vector<std::size_t> ends;
    if (!chars_.empty()) ends.push_back(chars_.size());
    for (const Splitter splitter : splitters) ends = cut(ends, splitter);
    std::vector<std::string_view> out;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      out.push_back(text_.substr(chars_[begin].offset, offset(end) - chars_[begin].offset));
      begin = end;
    }
    return out;
  }

  std::size_t gpt2(std::size_t i) const {
    if (const std::size_t end = contraction(i, false); end != i) return end;
    const std::size_t word = chars_[i].code_point == ' ' ? i + 1 : i;
    for (const Trait wanted : {Trait::letter, Trait::number}) {
      if (is(word, wanted)) return run(word, wanted);
    }
    return is_other(word) ? run_of(word, &Scanner::is_other) : spaces(i);
  }
  std::size_t llama(std::size_t i) const { return llama_like(i, 3); }
  std::size_t qwen2(std::size_t i) const { return llama_like(i, 1); }

  std::size_t qwen35(std::size_t i) const {
    if (const std::size_t end = contraction(i, true); end != i) return end;
    if (may_lead(i) && is_letter_or_mark(i + 1)) return run_of(i + 1, &Scanner::is_letter_or_mark);
    if (is_letter_or_mark(i)) return run_of(i, &Scanner::is_letter_or_mark);
    if (is(i, Trait::number)) return i + 1;
    const std::size_t word = chars_[i].code_point == ' ' ? i + 1 : i;
    if (!is_unmarked(word)) return line_ends_or_spaces(i);
    return run_of(run_of(word, &Scanner::is_unmarked), &Scanner::is_newline);
  }

  std::size_t gpt4o(std::size_t i) const {
    const bool leads = may_lead(i);
    for (const auto part : {&Scanner::lower_last, &Scanner::upper_first}) {
      for (const bool led : {true, false}) {
        if (led && !leads) continue;
        const std::size_t begin = led ? i + 1 : i, end = (this->*part)(begin);
        if (end != begin) return contraction(end, true);
      }
    }
    if (is(i, Trait::number)) return run(i, Trait::number, 3);
    const std::size_t word = chars_[i].code_point == ' ' ? i + 1 : i;
    if (!is_other(word)) return line_ends_or_spaces(i);
    return run_of(run_of(word, &Scanner::is_other), &Scanner::is_newline_or_slash);
  }

  std::size_t each_digit(std::size_t i) const { return is(i, Trait::split_as_digit) ? i + 1 : i; }
  std::size_t punctuation_run(std::size_t i) const { return run(i, Trait::split_as_punctuation); }
  std::size_t line_end(std::size_t i) const { return is_newline(i) ? i + 1 : i; }
  std::size_t letters(std::size_t i) const { return after_space(i, &Scanner::is_letter); }
  std::size_t punctuation(std::size_t i) const { return after_space(i, &Scanner::is_punctuation); }
  std::size_t deepseek_letters(std::size_t i) const { return after_space(i, &Scanner::is_deepseek_letter); }
  std::size_t deepseek_punctuation(std::size_t i) const { return after_space(i, &Scanner::is_deepseek_punctuation); }
  std::size_t east_asian(std::size_t i) const { return run_of(i, &Scanner::is_east_asian); }
  // A run is looked at once, from where it begins.
  std::size_t trailing_spaces(std::size_t i) const {
    if (i > begin_ && is(i - 1, Trait::space)) return i;
    const std::size_t end = run(i, Trait::space);
    return end == end_ ? end : i;
  }

 private:
  using Predicate = bool (Scanner::*)(std::size_t i) const;

  std::vector<std::size_t> cut(const std::vector<std::size_t>& ends, Splitter splitter) {
    std::vector<std::size_t> out;
    begin_ = 0;
    for (const std::size_t end : ends) {
      end_ = end;
      std::size_t between = begin_;
      for (std::size_t i = begin_; i < end;) {
        const std::size_t match = (this->*splitter)(i);
        if (match == i) {
          ++i;
          continue;
        }
        if (between < i) out.push_back(i);
        out.push_back(match);
        between = i = match;
      }
      if (between < end) out.push_back(end);
      begin_ = end;
    }
    return out;
  }

  std::size_t offset(std::size_t i) const { return i < chars_.size() ? chars_[i].offset : text_.size(); }
  bool is(std::size_t i, Trait wanted) const { return i < end_ && chars_[i].is.has(wanted); }
  bool is_newline(std::size_t i) const { return i < end_ && (chars_[i].code_point == '\n' || chars_[i].code_point == '\r'); }
  bool is_newline_or_slash(std::size_t i) const { return is_newline(i) || (i < end_ && chars_[i].code_point == '/'); }
  bool is_letter(std::size_t i) const { return is(i, Trait::letter); }
  bool is_letter_or_mark(std::size_t i) const { return is(i, Trait::letter) || is(i, Trait::mark); }
  bool is_punctuation(std::size_t i) const { return is(i, Trait::punctuation); }
  // [^\s\p{L}\p{N}], and the same without marks.
  bool is_other(std::size_t i) const { return i < end_ && !is(i, Trait::letter) && !is(i, Trait::number) && !is(i, Trait::space); }
  bool is_unmarked(std::size_t i) const { return is_other(i) && !is(i, Trait::mark); }
  // What may begin a capitalised word, and what may end one: letters without case and marks are both.
  bool may_begin(std::size_t i) const { return is_letter_or_mark(i) && !is(i, Trait::lower); }
  bool may_end(std::size_t i) const { return is_letter_or_mark(i) && !is(i, Trait::upper); }
  bool is_deepseek_letter(std::size_t i) const { return i < end_ && within(chars_[i].code_point, kDeepseekLetters); }
  bool is_deepseek_punctuation(std::size_t i) const { return i < end_ && within(chars_[i].code_point, kDeepseekPunctuation); }
  bool is_east_asian(std::size_t i) const { return i < end_ && within(chars_[i].code_point, kEastAsian); }
  // [^\r\n\p{L}\p{N}]
  bool may_lead(std::size_t i) const { return i < end_ && !is_newline(i) && !is(i, Trait::letter) && !is(i, Trait::number); }

  std::size_t run(std::size_t i, Trait wanted, std::size_t most = ~std::size_t{0}) const {
    for (; most > 0 && is(i, wanted); --most) ++i;
    return i;
  }
  std::size_t run_of(std::size_t i, Predicate predicate) const {
    while ((this->*predicate)(i)) ++i;
    return i;
  }
  // \s?[...]+
  std::size_t after_space(std::size_t i, Predicate predicate) const {
    if (is(i, Trait::space) && (this->*predicate)(i + 1)) return run_of(i + 1, predicate);
    return run_of(i, predicate);
  }

  // Equal, or with ignore_case equal under simple case folding: of the letters at hand only s has a partner outside ASCII.
  static bool same(std::int32_t c, char letter, bool ignore_case) {
    if (c == letter) return true;
    return ignore_case && (c == letter - 'a' + 'A' || (letter == 's' && c == 0x17f));
  }

  // The end of 's, 't, 're ... at i, or i.
  std::size_t contraction(std::size_t i, bool ignore_case) const {
    if (i >= end_ || chars_[i].code_point != '\'') return i;
    for (const std::string_view tail : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      std::size_t k = 0;
      while (k < tail.size() && i + 1 + k < end_ && same(chars_[i + 1 + k].code_point, tail[k], ignore_case)) ++k;
      if (k == tail.size()) return i + 1 + k;
    }
    return i;
  }

  // \s+(?!\S)|\s+ at a space: the run without its last member when a word follows that may want it.
  std::size_t spaces(std::size_t i) const {
    const std::size_t end = run(i, Trait::space);
    return end < end_ && end - i > 1 ? end - 1 : end;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of the run, where there is one.
  std::size_t line_ends_or_spaces(std::size_t i) const {
    for (std::size_t end = run(i, Trait::space); end > i; --end) {
      if (is_newline(end - 1)) return end;
    }
    return spaces(i);
  }

  std::size_t llama_like(std::size_t i, std::size_t digits) const {
    if (const std::size_t end = contraction(i, true); end != i) return end;
    if (is(i, Trait::letter)) return run(i, Trait::letter);
    if (may_lead(i) && is(i + 1, Trait::letter)) return run(i + 1, Trait::letter);
    if (is(i, Trait::number)) return run(i, Trait::number, digits);
    const std::size_t word = chars_[i].code_point == ' ' ? i + 1 : i;
    if (!is_other(word)) return line_ends_or_spaces(i);
    return run_of(run_of(word, &Scanner::is_other), &Scanner::is_newline);
  }

  // U*W+ : as many as may begin a word, but the last that may also end it is left for W+ where nothing else is.
  std::size_t lower_last(std::size_t i) const {
    const std::size_t begun = run_of(i, &Scanner::may_begin);
    if (may_end(begun)) return run_of(begun, &Scanner::may_end);
    for (std::size_t end = begun; end > i; --end) {
      if (may_end(end - 1)) return end;
    }
    return i;
  }
  // U+W*
  std::size_t upper_first(std::size_t i) const {
    const std::size_t begun = run_of(i, &Scanner::may_begin);
    return begun == i ? i : run_of(begun, &Scanner::may_end);
  }

  std::string_view text_;
  std::vector<Char> chars_;
  std::size_t begin_ = 0, end_ = 0;  // of the piece at hand
};

std::vector<Scanner::Splitter> splitters_of(Pretokeniser kind) {
  switch (kind) {
    case Pretokeniser::gpt2:
      return {&Scanner::gpt2};
    case Pretokeniser::llama_bpe:
      return {&Scanner::llama};
    case Pretokeniser::qwen2:
      return {&Scanner::qwen2};
    case Pretokeniser::qwen35:
      return {&Scanner::qwen35};
    case Pretokeniser::gpt4o:
      return {&Scanner::gpt4o};
    case Pretokeniser::starcoder:
      return {&Scanner::each_digit, &Scanner::gpt2};
    case Pretokeniser::falcon:
      return {&Scanner::punctuation_run, &Scanner::gpt2};
    case Pretokeniser::deepseek_llm:
      return {&Scanner::line_end,       &Scanner::deepseek_letters, &Scanner::deepseek_punctuation, &Scanner::trailing_spaces,
              &Scanner::east_asian, &Scanner::each_digit};
    case Pretokeniser::deepseek_coder:
      return {&Scanner::line_end, &Scanner::letters, &Scanner::punctuation, &Scanner::east_asian, &Scanner::each_digit};
  }
  return {};
}

bool is_digit_byte(char c) { return c >= '0' && c <= '9'; }

// GPT-2 writes these bytes as characters that are numbers: superscripts and fractions. Falcon takes digits apart after that, so it cuts
// within characters.
bool is_number_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return is_digit_byte(c) || byte == 0xb2 || byte == 0xb3 || byte == 0xb9 || (byte >= 0xbc && byte <= 0xbe);
}

void cut_triples(std::string_view digits, std::vector<std::string_view>& out) {
  std::size_t between = 0;
  for (std::size_t i = 0; i + 3 <= digits.size();) {
    if (!std::ranges::all_of(digits.substr(i, 3), is_digit_byte)) {
      ++i;
      continue;
    }
    if (between < i) out.push_back(digits.substr(between, i - between));
    out.push_back(digits.substr(i, 3));
    between = i += 3;
  }
  if (between < digits.size()) out.push_back(digits.substr(between));
}

std::vector<std::string_view> cut_numbers(const std::vector<std::string_view>& words) {
  std::vector<std::string_view> out;
  for (const std::string_view word : words) {
    for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      const bool number = is_number_byte(word[begin]);
      while (end < word.size() && is_number_byte(word[end]) == number) ++end;
      const std::string_view piece = word.substr(begin, end - begin);
      number ? cut_triples(piece, out) : out.push_back(piece);
    }
  }
  return out;
}

struct Names {
  Pretokeniser kind;
  std::array<std::string_view, 7> names;  // the first is the kind's own, the others are of models with its pattern
};
// As llama.cpp's converter gives them (src/llama-vocab.cpp, tokenizer_pre).
constexpr std::array<Names, 9> kNames{{
    {Pretokeniser::gpt2, {"gpt-2", "phi-2", "mpt", "olmo", "gigachat", "mellum", "exaone4"}},
    {Pretokeniser::llama_bpe, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"}},
    {Pretokeniser::qwen2, {"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"}},
    {Pretokeniser::qwen35, {"qwen35"}},
    {Pretokeniser::gpt4o, {"gpt-4o", "llama4", "kanana2"}},
    {Pretokeniser::starcoder, {"starcoder", "refact", "command-r", "smollm", "codeshell"}},
    {Pretokeniser::falcon, {"falcon"}},
    {Pretokeniser::deepseek_llm, {"deepseek-llm"}},
    {Pretokeniser::deepseek_coder, {"deepseek-coder"}},
}};

}  // namespace

Traits char_traits(std::int32_t code_point) {
  const auto ranges = char_ranges();
  const auto before = [](std::int32_t c, const CharRange& range) { return c < range.first; };
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code_point, before);
  return after != ranges.begin() && code_point <= (after - 1)->last ? (after - 1)->traits : Traits();
}

std::optional<Pretokeniser> pretokeniser_by_name(std::string_view name) {
  for (const Names& row : kNames) {
    if (!name.empty() && std::ranges::find(row.names, name) != row.names.end()) return row.kind;
  }
  return std::nullopt;
}

std::string pretokeniser_names() {
  std::vector<std::string_view> names;
  for (const Names& row : kNames) std::ranges::copy_if(row.names, std::back_inserter(names), [](auto name) { return !name.empty(); });
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string_view> pretokenise(Pretokeniser kind, std::string_view text) {
  const std::vector<std::string_view> words = Scanner(text).words(splitters_of(kind));
  return kind == Pretokeniser::falcon ? cut_numbers(words) : words;
}

}  // namespace vitro
