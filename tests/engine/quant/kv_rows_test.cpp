#include "engine/quant/kv_rows.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

// e4m3 by its definition: no infinities, one NaN of each sign.
TEST(KvRows, every_code_of_fp8_is_the_number_that_its_bits_say) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15, fraction = code & 7;
    const float value = kFp8[static_cast<std::size_t>(code)];
    if (exponent == 15 && fraction == 7) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const float magnitude =
        exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9) : std::ldexp(1 + static_cast<float>(fraction) / 8, exponent - 7);
    EXPECT_EQ(value, code < 128 ? magnitude : -magnitude) << code;
    EXPECT_EQ(float_to_fp8(value), code) << "and back, the sign of zero as well";
  }
  EXPECT_EQ(kFp8[0x7e], kLargestFp8);
}

// Between neighbours: the nearer one, and of two equally near the even one. All of both signs.
TEST(KvRows, fp8_rounds_to_nearest_even_everywhere) {
  for (std::uint8_t code = 0; code < 0x7e; ++code) {
    const float low = kFp8[code], high = kFp8[code + 1u], middle = (low + high) / 2;  // exact
    for (const std::uint8_t sign : {0x00, 0x80}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      const auto expected = [sign](int magnitude) { return static_cast<std::uint8_t>(magnitude | sign); };
      EXPECT_EQ(float_to_fp8(s * middle), expected(code % 2 == 0 ? code : code + 1)) << int(code);
      EXPECT_EQ(float_to_fp8(s * std::nextafter(middle, 0.0f)), expected(code)) << int(code);
      EXPECT_EQ(float_to_fp8(s * std::nextafter(middle, 1000.0f)), expected(code + 1)) << int(code);
    }
  }
}

TEST(KvRows, what_fp8_does_not_reach_is_its_largest_number_and_nan_stays_nan) {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float large : {449.0f, 464.0f, 465.0f, 1e30f, infinite}) {
    EXPECT_EQ(float_to_fp8(large), 0x7e);
    EXPECT_EQ(float_to_fp8(-large), 0xfe);
  }
  EXPECT_EQ(float_to_fp8(std::numeric_limits<float>::quiet_NaN()) & 0x7f, 0x7f);
  EXPECT_EQ(float_to_fp8(1e-30f), 0);
  EXPECT_EQ(float_to_fp8(-std::numeric_limits<float>::denorm_min()), 0x80);
}

// Half a step of the key's own scale, and the roundings of float32 on the way.
TEST(KvRows, a_key_is_off_by_half_a_step_of_its_own_range) {
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const auto dim = static_cast<std::uint32_t>(1 + rng.below(130));
    std::vector<float> x(dim), y(dim);
    const float size = std::ldexp(1.0f, static_cast<int>(rng.below(30)) - 15), shift = static_cast<float>(rng.normal());
    for (float& value : x) value = size * (static_cast<float>(rng.normal()) + shift);
    std::vector<std::byte> row(kv_row_bytes(Format::int8_fp8, 0, dim));
    write_kv_row(Format::int8_fp8, 0, x.data(), dim, row.data());
    read_kv_row(Format::int8_fp8, 0, row.data(), dim, y.data());
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    const float largest = std::max(std::abs(*low), std::abs(*high));
    for (std::uint32_t d = 0; d < dim; ++d) {
      EXPECT_LE(std::abs(x[d] - y[d]), (*high - *low) / 255 * 0.5f + largest * 0x1p-19f) << dim;
    }
  }
}

TEST(KvRows, a_key_of_one_number_comes_back_as_it_was) {
  const std::vector<float> x(7, -0.3f);
  std::vector<float> y(7);
  std::vector<std::byte> row(kv_row_bytes(Format::int8_fp8, 0, 7));
  quantise_key(x.data(), 7, row.data());
  dequantise_key(row.data(), 7, y.data());
  EXPECT_EQ(x, y);
}

TEST(KvRows, no_number_of_a_key_is_the_least_of_the_others) {
  const std::vector<float> x{1, std::numeric_limits<float>::quiet_NaN(), -2, 3};
  std::vector<float> y(4);
  std::vector<std::byte> row(kv_row_bytes(Format::int8_fp8, 0, 4));
  quantise_key(x.data(), 4, row.data());
  dequantise_key(row.data(), 4, y.data());
  EXPECT_EQ(y[1], -2);
  EXPECT_NEAR(y[0], 1, 5.0f / 255);
}

}  // namespace
}  // namespace vitro
