// UTF-8 that may be malformed: every byte belongs to exactly one symbol.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vitro {

struct Utf8Symbol {
  std::size_t length = 1;
  std::int32_t code_point = -1;  // -1: one byte that starts no well-formed sequence
};

// The symbol at the front of `text` (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
// Requires: text is not empty.
constexpr Utf8Symbol front_symbol(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, static_cast<std::int32_t>(first)};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  std::int32_t value = static_cast<std::int32_t>(first & (0x7fu >> length));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return {};
    value = value << 6 | static_cast<std::int32_t>(byte(i) & 0x3fu);
  }
  constexpr std::int32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return {};
  return {length, value};
}

}  // namespace vitro
