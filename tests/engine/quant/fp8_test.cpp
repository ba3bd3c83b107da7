#include "engine/quant/fp8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vitro {
namespace {

struct Kind {
  const char* name;
  const std::array<float, 256>& values;
  std::uint8_t (*code)(float);
  int fraction_bits, bias;
  std::uint8_t largest;
};
const Kind kKinds[] = {{"e4m3", kE4m3, float_to_e4m3, 3, 7, 0x7e}, {"e5m2", kE5m2, float_to_e5m2, 2, 15, 0x7b}};

// By definition. e4m3 has no infinities and one NaN of each sign; e5m2 has both as binary16 has them.
TEST(Fp8, every_code_is_the_number_that_its_bits_say) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const int ones = (1 << kind.fraction_bits) - 1;
    for (int code = 0; code < 256; ++code) {
      const int exponent = (code & 0x7f) >> kind.fraction_bits, fraction = code & ones;
      const float value = kind.values[static_cast<std::size_t>(code)];
      if ((code & 0x7f) > kind.largest) {
        EXPECT_EQ(std::isinf(value), (code & 0x7f) == 0x7c) << code;
        EXPECT_EQ(std::isnan(value), (code & 0x7f) != 0x7c) << code;
        continue;
      }
      const float part = static_cast<float>(fraction) / static_cast<float>(ones + 1);
      const float magnitude = exponent == 0 ? std::ldexp(part, 1 - kind.bias) : std::ldexp(1 + part, exponent - kind.bias);
      EXPECT_EQ(value, code < 128 ? magnitude : -magnitude) << code;
      EXPECT_EQ(kind.code(value), code) << "and back, the sign of zero as well";
    }
  }
  EXPECT_EQ(kE4m3[0x7e], kLargestE4m3);
  EXPECT_EQ(kE5m2[0x7b], kLargestE5m2);
}

// Between neighbours: the nearer one, and of two equally near the even one. All of both signs.
TEST(Fp8, rounds_to_nearest_even_everywhere) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    for (std::uint8_t code = 0; code < kind.largest; ++code) {
      const float low = kind.values[code], high = kind.values[code + 1u], middle = (low + high) / 2;  // exact
      for (const std::uint8_t sign : {0x00, 0x80}) {
        const float s = sign != 0 ? -1.0f : 1.0f;
        const auto expected = [sign](int magnitude) { return static_cast<std::uint8_t>(magnitude | sign); };
        EXPECT_EQ(kind.code(s * middle), expected(code % 2 == 0 ? code : code + 1)) << int(code);
        EXPECT_EQ(kind.code(s * std::nextafter(middle, 0.0f)), expected(code)) << int(code);
        EXPECT_EQ(kind.code(s * std::nextafter(middle, 100000.0f)), expected(code + 1)) << int(code);
      }
    }
  }
}

TEST(Fp8, what_it_does_not_reach_is_its_largest_number_and_nan_stays_nan) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const float most = kind.values[kind.largest];
    for (const float large : {1.01f * most, 1.2f * most, 1e30f, std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(kind.code(large), kind.largest);
      EXPECT_EQ(kind.code(-large), kind.largest | 0x80);
    }
    EXPECT_EQ(kind.code(std::numeric_limits<float>::quiet_NaN()) & 0x7f, 0x7f);
    EXPECT_EQ(kind.code(1e-30f), 0);
    EXPECT_EQ(kind.code(-std::numeric_limits<float>::denorm_min()), 0x80);
  }
}

}  // namespace
}  // namespace vitro
