#include "engine/app/scaling/text_pattern.hpp"

#include <fmt/format.h>

namespace vitro {

TextPattern TextPattern::read(const Reader& reader, std::string_view key, const std::string& text, bool ignore_case) {
  constexpr std::size_t kLongestPattern = 1024;  // it is compiled by recursion
  if (text.size() > kLongestPattern) {
    reader.fail(key, fmt::format("has {} characters (expected at most {})", text.size(), kLongestPattern));
  }
  TextPattern pattern;
  pattern.text_ = text;
  try {
    // The default matcher of libstdc++ recurses once per character of the text and may take exponential time; this one does not.
    const auto flags = std::regex::ECMAScript | std::regex_constants::__polynomial;
    pattern.regex_ = std::regex(text, ignore_case ? flags | std::regex::icase : flags);
  } catch (const std::regex_error& error) {
    reader.fail(key, fmt::format("\"{}\" is not a regular expression ({})", text, error.what()));
  }
  return pattern;
}

void TextPattern::check(const std::string& text) const {
  if (text.size() > kLongest) {
    throw RunError(fmt::format("the pattern \"{}\" can not be matched with a text of {} bytes (at most {})", text_, text.size(), kLongest));
  }
}

bool TextPattern::occurs_in(const std::string& text) const {
  check(text);
  return std::regex_search(text, regex_);
}

std::optional<std::string> TextPattern::last_group(const std::string& text) const {
  check(text);
  std::optional<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex_), end; match != end; ++match) found = match->str(1);
  return found;
}

}  // namespace vitro
