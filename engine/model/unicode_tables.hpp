// What pre-tokenisers ask of a code point, as the `tokenizers` package answers it: its regular expressions know Unicode 16, and its own
// splitters another version.
#pragma once
#include <cstdint>
#include <span>

namespace vitro {

enum class Trait : std::uint8_t {
  letter,               // \p{L}
  number,               // \p{N}
  space,                // \s (White_Space)
  mark,                 // \p{M}
  upper,                // \p{Lu} and \p{Lt}
  lower,                // \p{Ll}
  punctuation,          // \p{P}
  split_as_punctuation,  // by the splitter Punctuation: symbols of ASCII, too
  split_as_digit,       // by the splitter Digits
};

class Traits {
 public:
  constexpr Traits(std::uint16_t bits = 0) : bits_(bits) {}
  constexpr bool has(Trait trait) const { return (bits_ >> static_cast<unsigned>(trait) & 1) != 0; }

 private:
  std::uint16_t bits_;
};

struct CharRange {
  std::int32_t first, last;
  Traits traits;
};

std::span<const CharRange> char_ranges();      // ascending, disjoint
Traits char_traits(std::int32_t code_point);  // none for negative values

}  // namespace vitro
