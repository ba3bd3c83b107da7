#include "engine/quant/row_damage.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::vector<std::byte> good_row(Format format, std::size_t columns) {
  Rng rng(7);
  std::vector<float> values(columns);
  for (float& x : values) x = static_cast<float>(rng.normal());
  std::vector<std::byte> row(row_bytes(format, columns));
  quantise_row(format, values.data(), row.data(), columns);
  return row;
}

TEST(RowDamage, rows_of_a_quantiser_have_none_and_a_changed_byte_is_named_by_row_or_block) {
  const struct {
    Format format;
    std::size_t at;  // byte of the second block; of w4_outliers in the first position
    std::byte value;
    const char* message;
  } cases[] = {
      {Format::w(2, 64, 'z'), 19 + 2, std::byte{4},
       "damaged: block 7 has the zero point 4 (expected 0 to 3, the codes of w2g64z)"},  // row 3 has blocks 6 and 7
      {Format::w(4, 128, "zr"), 67 + 2, std::byte{15},
       "damaged: row 3 begins with the zero point 7 and its block 1 has 15 (expected one per row below 16, as w4g128zr has)"},
      {Format::w4_outliers, 4 + 1, std::byte{1}, "damaged: row 3: outlier 0 is at column "},
  };
  for (const auto& c : cases) {
    const std::size_t columns = c.format.has_outliers() ? 256 : std::size_t{2} * c.format.block;
    std::vector<std::byte> row = good_row(c.format, columns);
    EXPECT_EQ(row_damage(c.format, row.data(), columns, 3), std::nullopt);
    row[c.at] = c.value;
    EXPECT_TRUE(row_damage(c.format, row.data(), columns, 3).value_or("").starts_with(c.message))
        << row_damage(c.format, row.data(), columns, 3).value_or("");
  }
}

TEST(RowDamage, any_bytes_are_rows_of_formats_without_promises) {
  const std::vector<std::byte> row(row_bytes(Format::q4_0, 64), std::byte{0xff});
  for (const Format format : {Format::q4_0, Format::q8_0, Format::f16, Format::w(2, 64)}) EXPECT_FALSE(can_be_damaged(format));
  EXPECT_EQ(row_damage(Format::q4_0, row.data(), 64, 0), std::nullopt);
}

}  // namespace
}  // namespace vitro
