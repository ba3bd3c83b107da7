#include "engine/model/unicode_tables.hpp"

#include <gtest/gtest.h>

#include "engine/base/utf8.hpp"

namespace vitro {
namespace {

TEST(UnicodeTables, ranges_ascend_and_classes_are_those_of_well_known_characters) {
  std::int32_t end = -1;
  for (const CharRange& range : char_ranges()) {
    EXPECT_GT(range.first, end);
    EXPECT_LE(range.first, range.last);
    end = range.last;
  }
  const auto traits_of = [](std::int32_t c) {
    std::string names;
    const Traits traits = char_traits(c);
    for (int t = 0; t <= static_cast<int>(Trait::split_as_digit); ++t) {
      if (traits.has(static_cast<Trait>(t))) names += "LNSMUlPpd"[t];
    }
    return names;
  };
  EXPECT_EQ(traits_of('z'), "Ll");
  EXPECT_EQ(traits_of('Z'), "LU");
  EXPECT_EQ(traits_of(0x1c5), "LU");   // a title-case letter
  EXPECT_EQ(traits_of(0x4f60), "L");   // no case
  EXPECT_EQ(traits_of('7'), "Nd");
  EXPECT_EQ(traits_of(0x2167), "Nd");  // VIII
  EXPECT_EQ(traits_of(0x3000), "S");
  EXPECT_EQ(traits_of('_'), "Pp");
  EXPECT_EQ(traits_of('$'), "p");      // a symbol, which the splitter takes for punctuation
  EXPECT_EQ(traits_of(0x20ac), "");
  EXPECT_EQ(traits_of(0x301), "M");
  EXPECT_EQ(traits_of(-1), "");
}

TEST(Utf8, malformed_sequences_are_single_bytes) {
  const auto length = [](std::string_view text) {
    const Utf8Symbol symbol = front_symbol(text);
    return symbol.code_point < 0 ? -1 : static_cast<int>(symbol.length);
  };
  EXPECT_EQ(length("a"), 1);
  EXPECT_EQ(length("\xc3\xa9"), 2);
  EXPECT_EQ(length("\xf4\x8f\xbf\xbf"), 4);
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe4\xbd", "\xc3(", "\xf8\x88\x80\x80"}) {
    EXPECT_EQ(length(bad), -1);
  }
}

}  // namespace
}  // namespace vitro
