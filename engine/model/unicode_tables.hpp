// The three Unicode classes that pre-tokenisers ask for, of Unicode 16 as the `tokenizers` package has them.
#pragma once
#include <cstdint>
#include <span>

namespace vitro {

enum class CharClass : std::uint8_t { other, letter, number, space };  // \p{L}, \p{N}, \s (White_Space)

struct CharRange {
  std::int32_t first, last;
  CharClass is;
};

std::span<const CharRange> char_ranges();       // ascending, disjoint
CharClass char_class(std::int32_t code_point);  // other for negative values

}  // namespace vitro
