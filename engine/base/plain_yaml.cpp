#include "engine/base/plain_yaml.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/tree_builder.hpp"

namespace vitro {
namespace {

constexpr std::size_t kLongestKey = 128;  // yaml-cpp looks for the colon of a key within 1024 characters

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_of_key(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; }
bool is_of_word(char c) { return is_of_key(c) || std::string_view("+/%()* ").find(c) != std::string_view::npos; }

bool is_null(std::string_view word) { return word == "null" || word == "Null" || word == "NULL"; }

// Declines by returning false; what it has built by then is dropped.
class PlainReader {
 public:
  PlainReader(std::string_view text, std::string_view name)
      : text_(text), file_(std::make_shared<const std::string>(name)), builder_(true) {}

  std::optional<Node> read() {
    for (std::size_t begin = 0; begin < text_.size(); ++line_) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      left_ = text_.substr(begin, end - begin);
      if (!take_line()) return std::nullopt;
      begin = end + 1;
    }
    if (indents_.empty() || key_open_) return std::nullopt;
    for (; !indents_.empty(); indents_.pop_back()) builder_.close();
    return builder_.take();
  }

 private:
  Origin here() const { return {file_, line_}; }

  bool skip(char c) {
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  std::size_t skip_spaces() {
    const std::size_t spaces = std::min(left_.find_first_not_of(' '), left_.size());
    left_.remove_prefix(spaces);
    return spaces;
  }
  // Nothing but spaces and a comment is left.
  bool ends() {
    const bool apart = skip_spaces() > 0;
    if (left_.empty()) return true;
    return apart && is_comment();
  }
  bool is_comment() const {
    return left_.starts_with('#') && std::ranges::none_of(left_, [](unsigned char c) { return c < ' ' || c == 0x7f; });
  }

  bool take_line() {
    const std::size_t indent = skip_spaces();
    if (left_.empty() || is_comment()) return true;
    if (indents_.empty() ? indent == 0 : key_open_ && indent > indents_.back()) {
      indents_.push_back(indent);
      builder_.open(true, here());
    } else {
      if (key_open_) return false;  // a key without a value
      for (; !indents_.empty() && indents_.back() > indent; indents_.pop_back()) builder_.close();
      if (indents_.empty() || indents_.back() != indent) return false;
    }
    if (!take_key()) return false;
    key_open_ = ends();
    return key_open_ || (take_value() && ends());
  }

  // With its colon, and a space behind that or the end of the line.
  bool take_key() {
    const auto length = static_cast<std::size_t>(std::ranges::find_if_not(left_, is_of_key) - left_.begin());
    const std::string_view key = left_.substr(0, length);
    if (length == 0 || length > kLongestKey || !is_letter(key[0]) || is_null(key)) return false;
    left_.remove_prefix(length);
    builder_.place(Node::scalar(std::string(key), here()), here());
    return skip(':') && (left_.empty() || left_[0] == ' ');
  }

  bool take_value() {
    skip_spaces();
    if (skip('{')) return take_braces();
    if (skip('"')) return take_quoted();
    return take_word();
  }

  bool take_braces() {
    builder_.open(true, here());
    do {
      skip_spaces();
      if (!take_key() || !take_value()) return false;
      skip_spaces();
    } while (skip(','));
    builder_.close();
    return skip('}');
  }

  bool take_quoted() {
    const std::size_t length = left_.find('"');
    if (length == left_.npos) return false;
    const std::string_view value = left_.substr(0, length);
    if (std::ranges::any_of(value, [](char c) { return c < ' ' || c > '~' || c == '\\'; })) return false;
    builder_.place(Node::scalar(std::string(value), here(), true), here());
    left_.remove_prefix(length + 1);
    return true;
  }

  // Without the spaces behind it; what follows them is for the caller to judge.
  bool take_word() {
    std::string_view word = left_.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(left_, is_of_word) - left_.begin()));
    word = word.substr(0, word.find_last_not_of(' ') + 1);
    left_.remove_prefix(word.size());
    const bool number = word.size() > 1 && (word[0] == '-' || word[0] == '+' || word[0] == '.') && is_digit(word[1]);
    if (word.empty() || (!is_letter(word[0]) && !is_digit(word[0]) && !number) || is_null(word)) return false;
    builder_.place(Node::scalar(std::string(word), here()), here());
    return true;
  }

  std::string_view text_, left_;  // left_: of the line at hand
  int line_ = 1;
  std::shared_ptr<const std::string> file_;
  TreeBuilder builder_;
  std::vector<std::size_t> indents_;  // of the maps that have not ended
  bool key_open_ = false;             // the last line ended with a key
};

}  // namespace

std::optional<Node> parse_plain_yaml(std::string_view text, std::string_view name) {
  try {
    return PlainReader(text, name).read();
  } catch (const ConfigError&) {
    return std::nullopt;  // the message is that of the other reader, which sees all of the text
  }
}

}  // namespace vitro
