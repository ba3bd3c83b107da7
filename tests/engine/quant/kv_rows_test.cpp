#include "engine/quant/kv_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/fp8.hpp"

namespace vitro {
namespace {

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

// What a row of a key or value stands for once it is written.
std::vector<float> through(Format format, std::uint32_t which, const std::vector<float>& x) {
  const auto dim = static_cast<std::uint32_t>(x.size());
  std::vector<std::byte> row(kv_row_bytes(format, which, dim));
  std::vector<float> y(dim);
  write_kv_row(format, which, x.data(), dim, row.data());
  read_kv_row(format, which, row.data(), dim, y.data());
  return y;
}

TEST(KvRows, a_key_of_one_number_comes_back_as_it_was) {
  const std::vector<float> x(7, -0.3f), half(70, -0.3125f);
  EXPECT_EQ(through(Format::int8_fp8, 0, x), x);
  EXPECT_EQ(through(Format::int4_fp8, 0, half), half) << "what binary16 can write";
  EXPECT_EQ(through(Format::int4_fp8, 0, std::vector<float>(33)), std::vector<float>(33));
}

TEST(KvRows, no_number_of_a_key_is_the_least_of_the_others) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (const Format format : {Format::int8_fp8, Format::int4_e5m2}) {
    const std::vector<float> y = through(format, 0, {1, none, -2, 3});
    EXPECT_NEAR(y[1], -2, 0.01f);
    EXPECT_NEAR(y[0], 1, 5.0f / 15);
  }
  EXPECT_EQ(through(Format::int4_fp8, 0, {none, none}), std::vector<float>(2));
}

// Half a step of the group's range, and the roundings of its scale and zero to binary16.
TEST(KvRows, an_int4_key_is_off_by_half_a_step_of_its_group) {
  Rng rng(6);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> x(1 + rng.below(130));
    const float size = std::ldexp(1.0f, static_cast<int>(rng.below(20)) - 10), shift = static_cast<float>(rng.normal());
    for (float& value : x) value = size * (static_cast<float>(rng.normal()) + shift);
    const std::vector<float> y = through(Format::int4_fp8, 0, x);
    for (std::size_t first = 0; first < x.size(); first += kKeyGroup) {
      const auto end = x.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(first + kKeyGroup, x.size()));
      const auto [low, high] = std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(first), end);
      const float largest = std::max(std::abs(*low), std::abs(*high));
      for (std::size_t d = first; d < first + static_cast<std::size_t>(end - x.begin()) - first; ++d) {
        EXPECT_LE(std::abs(x[d] - y[d]), (*high - *low) / 15 * 0.5f * 1.01f + largest * 0x1p-10f + 0x1p-20f) << d;
      }
    }
  }
}

// One loud channel takes precision from its group alone.
TEST(KvRows, groups_of_an_int4_key_do_not_share_a_scale) {
  std::vector<float> x(96);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 16) / 16;
  const std::vector<float> alone = through(Format::int4_fp8, 0, x);
  x[40] = 1000;
  const std::vector<float> loud = through(Format::int4_fp8, 0, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i / 32 != 1) {
      EXPECT_EQ(alone[i], loud[i]) << i;
    }
  }
  EXPECT_NE(alone[33], loud[33]);
}

TEST(KvRows, keys_beyond_binary16_are_cut_to_its_reach) {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& x : {std::vector<float>{-infinite, 0, infinite}, {1e30f, 1e30f, 1e30f}, {-1e6f, 0, 5}}) {
    for (const float y : through(Format::int4_fp8, 0, x)) EXPECT_LE(std::abs(y), 65504 * 1.001f);
  }
}

TEST(KvRows, bytes_of_a_row_are_what_its_codes_and_scales_take) {
  struct Case {
    Format format;
    std::uint32_t dim;
    Bytes key, value;
  };
  for (const auto& [format, dim, key, value] :
       {Case{Format::f32, 128, 512, 512}, {Format::f16, 128, 256, 256}, {Format::int8_fp8, 128, 136, 128}, {Format::int8_e5m2, 33, 41, 33},
        {Format::int4_fp8, 128, 80, 128}, {Format::int4_e5m2, 32, 20, 32}, {Format::int4_e5m2, 33, 40, 33}}) {
    EXPECT_EQ(kv_row_bytes(format, 0, dim), key) << to_string(format);
    EXPECT_EQ(kv_row_bytes(format, 1, dim), value) << to_string(format);
  }
}

TEST(KvRows, a_row_writes_all_of_its_bytes_and_no_other) {
  Rng rng(7);
  for (const Format format : kKvFormats) {
    for (const std::uint32_t dim : {1u, 15u, 16u, 31u, 33u, 80u, 257u}) {
      for (const std::uint32_t which : {0u, 1u}) {
        std::vector<float> x(dim);
        for (float& value : x) value = static_cast<float>(rng.normal());
        const std::size_t bytes = kv_row_bytes(format, which, dim);
        std::vector<std::byte> zeros(bytes + 1, std::byte{0}), ones(bytes + 1, std::byte{0xff});
        write_kv_row(format, which, x.data(), dim, zeros.data());
        write_kv_row(format, which, x.data(), dim, ones.data());
        EXPECT_EQ(std::memcmp(zeros.data(), ones.data(), bytes), 0) << to_string(format) << " " << dim;
        EXPECT_EQ(zeros[bytes], std::byte{0});
        EXPECT_EQ(ones[bytes], std::byte{0xff});
      }
    }
  }
}

TEST(KvRows, values_are_the_fp8_of_the_format) {
  const std::vector<float> x{0.3f, -1.0f, 500, 1e6f};
  EXPECT_EQ(through(Format::int4_fp8, 1, x), (std::vector<float>{0.3125f, -1, kLargestE4m3, kLargestE4m3}));
  EXPECT_EQ(through(Format::int8_fp8, 1, x), through(Format::int4_fp8, 1, x));
  EXPECT_EQ(through(Format::int8_e5m2, 1, x), (std::vector<float>{0.3125f, -1, 512, kLargestE5m2}));
  EXPECT_EQ(through(Format::int4_e5m2, 1, x), through(Format::int8_e5m2, 1, x));
}

// Files of saved sequences hold the place.
TEST(KvRows, formats_of_pools_keep_their_numbers) {
  EXPECT_EQ(kv_format_names(), (std::vector<std::string>{"f32", "f16", "int8_fp8", "int4_fp8", "int8_e5m2", "int4_e5m2"}));
  EXPECT_EQ(kv_format_list(), "f32, f16, int8_fp8, int4_fp8, int8_e5m2 or int4_e5m2");
  EXPECT_FALSE(holds_kv(Format::q8_0));
}

}  // namespace
}  // namespace vitro
