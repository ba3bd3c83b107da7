#include "engine/quant/codebooks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

#include "engine/quant/codebook_blocks.hpp"

namespace vitro::codebook {
namespace {

int signed_byte(std::uint64_t bytes, unsigned i) { return static_cast<std::int8_t>(bytes >> 8 * i); }

template <class Word, std::size_t kCount>
void expect_book(const Book<Word, kCount>& book, const std::set<unsigned>& values) {
  std::set<unsigned> found;
  for (const Word entry : book.at) {
    for (unsigned i = 0; i < sizeof(Word); ++i) found.insert(entry >> 8 * i & 255);
  }
  EXPECT_EQ(found, values);
  EXPECT_EQ(std::set<Word>(std::begin(book.at), std::end(book.at)).size(), kCount) << "two entries are the same";
}

TEST(Codebooks, have_their_values_and_no_entry_twice) {
  expect_book(kIq2Xxs, {8, 25, 43});
  expect_book(kIq2Xs, {8, 25, 43});
  expect_book(kIq2S, {8, 25, 43});
  expect_book(kIq3Xxs, {4, 12, 20, 28, 36, 44, 52, 62});
  expect_book(kIq3S, {1, 3, 5, 7, 9, 11, 13, 15});
  expect_book(kIq1, {121, 129, 137});
}

TEST(Codebooks, seven_signs_have_an_eighth_that_makes_them_even) {
  for (std::uint32_t sevens = 0; sevens < 128; ++sevens) {
    const std::uint32_t eight = four_times_seven(sevens) & 255;
    EXPECT_EQ(eight & 127, sevens);
    EXPECT_EQ(std::popcount(eight) % 2, 0);
    for (unsigned place = 1; place < 4; ++place) EXPECT_EQ(four_times_seven(sevens << 7 * place | 0xf0000000), eight << 8 * place);
  }
}

TEST(Codebooks, signs_and_deltas_change_each_byte_by_itself) {
  for (const std::uint64_t entry : {kIq2S.at[0], kIq2S.at[777], both(kIq3S.at[0], kIq3Xxs.at[255])}) {
    for (unsigned bits = 0; bits < 256; ++bits) {
      const std::uint64_t made = with_signs(entry, bits);
      for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(signed_byte(made, i), (bits >> i & 1 ? -1 : 1) * signed_byte(entry, i)) << bits;
    }
  }
  for (const std::uint64_t entry : kIq1.at) {
    for (unsigned i = 0; i < 8; ++i) {
      const int at_one = static_cast<int>(entry >> 8 * i & 255) - 128;
      for (const unsigned bits : {0u, 255u, 0x5au}) {
        ASSERT_EQ(signed_byte(with_deltas(entry, bits), i), at_one - (bits >> i & 1 ? 2 : 0));
      }
    }
  }
}

}  // namespace
}  // namespace vitro::codebook
