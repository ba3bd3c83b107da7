// A regular expression that judges generated text.
#pragma once
#include <optional>
#include <regex>
#include <string>

#include "engine/base/config.hpp"

namespace vitro {

// ECMAScript syntax, as of <regex>, without back-references. Immutable.
class TextPattern {
 public:
  // Throws ConfigError naming the key when the text is no regular expression.
  static TextPattern read(const Reader& reader, std::string_view key, const std::string& text, bool ignore_case);

  const std::string& text() const { return text_; }
  std::size_t groups() const { return regex_.mark_count(); }

  // Both throw RunError on a text of more than kLongest bytes: time may grow with its square.
  static constexpr std::size_t kLongest = 32 * 1024;
  bool occurs_in(const std::string& text) const;
  // The first group of the last match. Requires: groups() > 0.
  std::optional<std::string> last_group(const std::string& text) const;

 private:
  void check(const std::string& text) const;

  std::string text_;
  std::regex regex_;
};

}  // namespace vitro
