#include "engine/quant/group_formats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::vector<Format> formats_with_codes() {
  std::vector<Format> found;
  std::ranges::copy_if(all_formats(), std::back_inserter(found), [](Format f) { return f.has_codes(); });
  return found;
}

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

TEST(GroupFormats, sizes_are_scale_zero_point_and_bits) {
  EXPECT_EQ(block_bytes(Format::w(1, 32)), 6u);
  EXPECT_EQ(block_bytes(Format::w(2, 64)), 18u);
  EXPECT_EQ(block_bytes(Format::w(2, 64, 'z')), 19u);
  EXPECT_EQ(block_bytes(Format::w(3, 128, 'z')), 51u);
  EXPECT_EQ(block_bytes(Format::w(2, 128, 'r')), block_bytes(Format::w(2, 128)));
  EXPECT_EQ(row_bytes(Format::w(2, 128, 'r'), 512), row_bytes(Format::w(2, 128), 512));
  EXPECT_EQ(row_bytes(Format::w(2, 128, 'r'), 512, Layout::lut), 2u + 512 * 2 / 8);  // a scale, and two bits each
  EXPECT_EQ(row_bytes(Format::w(2, 128), 512, Layout::lut), row_bytes(Format::w(2, 128), 512));
  EXPECT_EQ(row_bytes(Format::w(4, 128), 256), 132u);
  EXPECT_EQ(row_bytes(Format::iq4_nl, 64), 36u);
}

// Two planes of four bytes: element 0 has bit 0 of plane 0, element 9 bit 1 of the planes' second bytes.
TEST(GroupFormats, bits_of_an_element_stand_in_planes) {
  const auto block = bytes({0x00, 0x3c, 0x01, 0x02, 0x00, 0x80, 0x00, 0x02, 0x00, 0x80});  // d = 1
  ASSERT_EQ(block.size(), block_bytes(Format::w(2, 32)));
  std::vector<std::uint8_t> codes(32);
  unpack_codes(Format::w(2, 32), block.data(), 32, codes.data());
  std::vector<std::uint8_t> expected(32);
  expected[0] = 1;
  expected[9] = 3;
  expected[31] = 3;
  EXPECT_EQ(codes, expected);
  std::vector<float> values(32);
  dequantise_row(Format::w(2, 32), block.data(), values.data(), 32);
  EXPECT_EQ(values[0], -1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[31], 1);
}

TEST(GroupFormats, a_zero_point_is_the_code_of_zero_and_one_bit_is_a_sign) {
  const auto zero = bytes({0x00, 0x40, 3, 0xff, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0});  // d = 2, z = 3, first codes 3
  ASSERT_EQ(zero.size(), block_bytes(Format::w(3, 32, 'z')));
  std::vector<float> values(32);
  dequantise_row(Format::w(3, 32, 'z'), zero.data(), values.data(), 32);
  EXPECT_EQ(values[7], 0);
  EXPECT_EQ(values[8], -6);
  const auto sign = bytes({0x00, 0x38, 0x01, 0, 0, 0});  // d = 0.5
  dequantise_row(Format::w(1, 32), sign.data(), values.data(), 32);
  EXPECT_EQ(values[0], 0.5f);
  EXPECT_EQ(values[1], -0.5f);
}

TEST(GroupFormats, tables_are_read_by_nibbles_as_q4_0_lies) {
  std::vector<std::byte> block(18, std::byte{0});
  block[1] = std::byte{0x3c};  // d = 1
  block[2] = std::byte{0x9f};  // elements 0 and 16
  std::vector<float> values(32);
  dequantise_row(Format::fp4, block.data(), values.data(), 32);
  EXPECT_EQ(values[0], -6);
  EXPECT_EQ(values[16], -0.5f);
  EXPECT_EQ(values[1], 0);
  dequantise_row(Format::iq4_nl, block.data(), values.data(), 32);
  EXPECT_EQ(values[0], 113);
  EXPECT_EQ(values[16], -104 + 117);
  EXPECT_EQ(values[1], -127);
  dequantise_row(Format::nf4, block.data(), values.data(), 32);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -1);
}

// The tables' own laws: E2M1 by its definition, nf4 with a zero and both ends, each with distinct values.
TEST(GroupFormats, tables_hold_what_their_names_say) {
  for (unsigned q = 0; q < 16; ++q) {
    const unsigned exponent = (q >> 1) & 3, fraction = q & 1;
    const double magnitude = exponent == 0 ? 0.5 * fraction : std::ldexp(1 + 0.5 * fraction, static_cast<int>(exponent) - 1);
    EXPECT_EQ((*code_table(Format::fp4))[q], q >> 3 ? -magnitude : magnitude) << q;
  }
  const auto& nf4 = *code_table(Format::nf4);
  EXPECT_TRUE(std::ranges::is_sorted(nf4));
  EXPECT_EQ(std::set<float>(nf4.begin(), nf4.end()).size(), 16u);
  EXPECT_EQ(nf4[7], 0);
  const auto& iq4 = *code_table(Format::iq4_nl);
  EXPECT_TRUE(std::ranges::is_sorted(iq4));
  EXPECT_EQ(code_table(Format::q4_0), nullptr);
}

// Scale, zero point and codes say the same as dequantise_row(), which q4_0 shows by code of its own.
TEST(GroupFormats, scale_and_codes_make_the_values_of_every_format) {
  Rng rng(5);
  for (const Format format : formats_with_codes()) {
    const std::size_t n = 2 * block_elements(format);
    std::vector<std::uint8_t> codes(n), got(n);
    for (auto& code : codes) code = static_cast<std::uint8_t>(rng.below(1u << format.bits));
    std::vector<std::byte> row(row_bytes(format, n) + 1);
    const auto zero = static_cast<std::uint8_t>(rng.below(1u << format.bits));
    for (std::size_t b = 0; b < 2; ++b) {
      const auto half = float_to_half(static_cast<float>(rng.normal()));
      pack_codes(format, half, zero, codes.data() + b * n / 2, row.data() + 1 + b * block_bytes(format));
    }
    unpack_codes(format, row.data() + 1, n, got.data());
    EXPECT_EQ(got, codes) << to_string(format);
    std::vector<float> values(n);
    dequantise_row(format, row.data() + 1, values.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      const BlockScale block = block_scale(format, row.data() + 1 + i / (n / 2) * block_bytes(format));
      const auto* table = code_table(format);
      const float level = table != nullptr ? (*table)[codes[i]] : static_cast<float>(block.step * codes[i] - block.zero);
      EXPECT_EQ(values[i], block.scale * level) << to_string(format) << " element " << i;
    }
  }
}

TEST(GroupFormats, a_zero_point_that_is_no_code_is_found) {
  std::vector<std::byte> row(row_bytes(Format::w(2, 32, 'z'), 96));
  EXPECT_EQ(first_bad_block(Format::w(2, 32, 'z'), row.data(), 96), std::nullopt);
  row[2 * block_bytes(Format::w(2, 32, 'z')) + 2] = std::byte{3};
  EXPECT_EQ(first_bad_block(Format::w(2, 32, 'z'), row.data(), 96), std::nullopt);
  row[2 * block_bytes(Format::w(2, 32, 'z')) + 2] = std::byte{4};
  EXPECT_EQ(first_bad_block(Format::w(2, 32, 'z'), row.data(), 96), 2u);
  std::fill(row.begin(), row.end(), std::byte{0xff});
  EXPECT_EQ(first_bad_block(Format::w(2, 32), row.data(), 64), std::nullopt);
}

TEST(GroupFormats, a_scale_that_is_not_the_rows_is_found) {
  std::vector<std::byte> row(row_bytes(Format::w(2, 32, 'r'), 96), std::byte{1});
  EXPECT_EQ(first_bad_block(Format::w(2, 32, 'r'), row.data(), 96), std::nullopt);
  row[2 * block_bytes(Format::w(2, 32, 'r')) + 1] = std::byte{2};
  EXPECT_EQ(first_bad_block(Format::w(2, 32, 'r'), row.data(), 64), std::nullopt);
  EXPECT_EQ(first_bad_block(Format::w(2, 32, 'r'), row.data(), 96), 2u);
  EXPECT_EQ(first_bad_block(Format::w(2, 32), row.data(), 96), std::nullopt);
}

}  // namespace
}  // namespace vitro
