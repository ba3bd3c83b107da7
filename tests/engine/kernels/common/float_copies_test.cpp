// Float32 copies of float16 activations: the values, one rounding at the store, and float32 left alone.
#include "engine/kernels/common/float_copies.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "engine/quant/float16.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro::test {
namespace {

TEST(FloatCopies, hold_the_values_of_halves) {
  const View x = make_view({2, 3, 0}, Format::f16);
  for (std::uint32_t i = 0; i < 6; ++i) x.as<std::uint16_t>()[i] = float_to_half(static_cast<float>(i) + 0.5F);
  const View wide = in_f32(x);
  EXPECT_EQ(wide.format, Format::f32);
  EXPECT_EQ(wide.shape, x.shape);
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(wide.as<float>()[i], static_cast<float>(i) + 0.5F);
}

TEST(FloatCopies, leave_float32_where_it_is) {
  const View x = make_view({4, 0, 0}, Format::f32);
  EXPECT_EQ(in_f32(x).data(), x.data());
  EXPECT_EQ(out_in_f32(x).data(), x.data());
  const float y = 1.000001F;
  store_f32(x, 2, &y, 1);
  EXPECT_EQ(x.as<float>()[2], y);
}

TEST(FloatCopies, are_rounded_to_nearest_even_as_they_are_stored) {
  const View y = make_view({4, 0, 0}, Format::f16);
  const float from[] = {1 + 0x1p-11F, 1 + 3 * 0x1p-11F, 70000};  // two ties, and what is beyond the largest float16
  store_f32(y, 1, from, 3);
  EXPECT_EQ(half_to_float(y.as<std::uint16_t>()[1]), 1.0F);
  EXPECT_EQ(half_to_float(y.as<std::uint16_t>()[2]), 1 + 0x1p-9F);
  EXPECT_EQ(half_to_float(y.as<std::uint16_t>()[3]), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace vitro::test
