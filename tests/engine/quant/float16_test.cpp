#include "engine/quant/float16.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

// The definition of binary16, in double.
double half_by_definition(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Float16, every_half_is_exact_and_survives_a_round_trip) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(half_by_definition(half))) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), half_by_definition(half));
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    EXPECT_EQ(float_to_half(value), half);
  }
}

// Rounding to nearest: no half is closer, and of two equally close ones the even one is taken.
void expect_nearest(float value) {
  const std::uint16_t got = float_to_half(value);
  if (std::abs(value) >= 65520) {
    EXPECT_EQ(got & 0x7fff, 0x7c00) << value;
    return;
  }
  const double error = std::abs(half_by_definition(got) - value);
  for (const int step : {-1, 1}) {
    const auto other = static_cast<std::uint16_t>(got + step);
    if ((other & 0x7fff) >= 0x7c00 || (other & 0x8000) != (got & 0x8000)) continue;
    const double other_error = std::abs(half_by_definition(other) - value);
    EXPECT_TRUE(error < other_error || (error == other_error && got % 2 == 0)) << value;
  }
}

TEST(Float16, rounds_to_nearest_even) {
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
    if (!std::isnan(value)) expect_nearest(value);
  }
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {  // exact ties and their neighbours
    const double low = half_by_definition(static_cast<std::uint16_t>(bits));
    const double high = half_by_definition(static_cast<std::uint16_t>(bits + 1));
    if (std::isinf(high)) continue;
    const auto tie = static_cast<float>((low + high) / 2);
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, INFINITY), -tie}) expect_nearest(value);
  }
}

TEST(Float16, bfloat_keeps_the_upper_half_and_rounds_to_even) {
  EXPECT_EQ(float_to_bfloat(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bfloat(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(std::bit_cast<float>(0x7f800001u)))));
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = bfloat_to_float(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(float_to_bfloat(value), bits);
    }
  }
}

}  // namespace
}  // namespace vitro
