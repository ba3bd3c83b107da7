#include "engine/kernels/lut/lut_reference.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/rng.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::lut {
namespace {

TEST(LutReference, opposite_entries_are_opposite_numbers) {
  const std::int8_t x[8] = {127, -127, 5, 0, 127, 127, 127, 127};
  const auto tables = precompute(x, 8);
  EXPECT_EQ(tables[15], 127 - 127 + 5);
  EXPECT_EQ(tables[1], 127 + 127 - 5);
  EXPECT_EQ(tables[16 + 15], 508);
  for (std::size_t g = 0; g < 2; ++g) {
    for (std::size_t e = 0; e < kEntries; ++e) EXPECT_EQ(tables[g * 16 + e], -tables[g * 16 + 15 - e]);
  }
}

TEST(LutReference, rounded_tables_fill_a_byte) {
  const std::int8_t x[12] = {127, -127, 5, 0, 127, 127, 127, 127, 0, 0, 0, 0};
  const RoundedTables one = precompute_rounded(x, 12, 12), each = precompute_rounded(x, 12, 4);
  EXPECT_EQ(one.most, std::vector<std::int32_t>{508});
  EXPECT_EQ(each.most, (std::vector<std::int32_t>{259, 508, 0}));
  EXPECT_EQ(one.entries[16 + 15], 127);
  EXPECT_EQ(one.entries[16], -127);
  EXPECT_EQ(one.entries[1 + 4], 65);  // 259 * 127 / 508
  EXPECT_EQ(each.entries[1 + 4], 127);
  for (std::size_t e = 32; e < 48; ++e) EXPECT_EQ(each.entries[e], 0);
}

TEST(LutReference, look_ups_are_the_dot_product) {
  Rng rng(1);
  constexpr std::size_t kRows = 9, kColumns = 512;
  for (unsigned bits = 1; bits <= 4; ++bits) {
    for (const std::size_t block : {4u, 32u, 64u, 128u, 256u}) {
      std::vector<std::int8_t> x(kColumns);
      for (auto& v : x) v = static_cast<std::int8_t>(rng.below(2) == 0 ? 127 : -127);  // the most that a sum of 16 bits has to hold
      std::vector<std::uint8_t> q(kRows * kColumns);
      for (std::size_t i = 0; i < q.size(); ++i) {
        q[i] = static_cast<std::uint8_t>(i < kColumns ? (x[i] > 0 ? (1u << bits) - 1 : 0) : rng.below(1u << bits));
      }
      std::vector<std::int32_t> sums(kColumns / block);
      for (std::size_t i = 0; i < kColumns; ++i) sums[i / block] += x[i];
      for (const std::int32_t zero : {0, 1, 8, 15}) {
        EXPECT_EQ(linear(precompute(x.data(), kColumns).data(), sums.data(), q.data(), kRows, kColumns, bits, zero, block),
                  dots(x.data(), q.data(), kRows, kColumns, zero, block))
            << bits << " bits, blocks of " << block << ", zero " << zero;
      }
    }
  }
}

TEST(LutReference, the_exp_table_is_within_half_an_fp16_step) {
  const auto table = exp2_table();
  ASSERT_EQ(table.size(), 32768u);
  EXPECT_EQ(table[0], 0x3c00);       // 2^0
  EXPECT_EQ(table[0x3c00], 0x3800);  // 2^-1
  EXPECT_EQ(table[0x7c00], 0);       // 2^-inf
  for (std::uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const double exact = std::exp2(static_cast<double>(half_to_float(static_cast<std::uint16_t>(bits | 0x8000))));
    const double step = std::max(exact > 0 ? std::ldexp(1.0, std::ilogb(exact) - 10) : 0, 0x1p-24);  // 2^-65504 is 0, even in double
    ASSERT_NEAR(half_to_float(table[bits]), exact, step * (0.5 + 0x1p-12)) << bits;
  }
}

// The polynomial in float32 rounds nearly as the table does; the one in fp16 is off by some of its steps, and has nothing below 2^-14.
TEST(LutReference, polynomials_are_near_the_exp_table) {
  const auto table = powers_of_two(Exponential::table), half = powers_of_two(Exponential::f16), single = powers_of_two(Exponential::f32);
  ASSERT_EQ(half.size(), table.size());
  ASSERT_EQ(single.size(), table.size());
  std::size_t off = 0;
  for (std::uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const int x = table[bits];  // positive halves ascend as their bits do
    constexpr std::uint16_t kFourteen = 0x4b00;
    ASSERT_LE(std::abs(single[bits] - x), 1) << bits;
    ASSERT_LE(std::abs(half[bits] - (bits <= kFourteen ? x : 0)), bits <= kFourteen ? 4 : 0) << bits;
    off += single[bits] != x;
  }
  EXPECT_LT(off, table.size() / 1000);
  EXPECT_EQ(single[0x7c00], 0);
  EXPECT_EQ(half[0x7e00], 0);  // not a number
}

}  // namespace
}  // namespace vitro::lut
