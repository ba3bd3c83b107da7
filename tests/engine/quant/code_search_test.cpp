#include "engine/quant/code_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro {
namespace {

std::vector<Format> searched_formats() {
  std::vector<Format> found;
  for (const Format format : all_formats()) {
    if (format.has_codes() && format != Format::q4_0) found.push_back(format);
  }
  return found;
}

std::vector<float> round_trip(Format format, const std::vector<float>& x) {
  std::vector<std::byte> row(row_bytes(format, x.size()));
  std::vector<float> y(x.size());
  quantise_row(format, x.data(), row.data(), x.size());
  dequantise_row(format, row.data(), y.data(), y.size());
  return y;
}

double squares(const std::vector<float>& x, const std::vector<float>& y, std::size_t first, std::size_t n) {
  double sum = 0;
  for (std::size_t i = first; i < first + n; ++i) sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
  return sum;
}

std::vector<float> levels_of(Format format) {
  if (const auto* table = code_table(format)) return {table->begin(), table->end()};
  std::vector<float> levels;
  for (int q = 0; q < 1 << format.bits; ++q) {
    levels.push_back(static_cast<float>(format.bits == 1 ? 2 * q - 1 : q - (1 << (format.bits - 1))));
  }
  return levels;
}

// What absmax or min/max rounding may cost an element at most, which the search is never above (in the mean square): half the
// largest gap, or what clipping at the shorter end takes; and half a step of binary16 for the outermost level.
double element_bound(Format format, const std::vector<float>& x, std::size_t first, std::size_t n) {
  const auto [low, high] =
      std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(first + n));
  if (format.zero_point) {
    const double steps = (1 << format.bits) - 1, step = (std::max(*high, 0.0f) - std::min(*low, 0.0f)) / steps;
    return step / 2 + steps * (step * 0x1p-11 + 0x1p-25);
  }
  std::vector<float> levels = levels_of(format);
  std::ranges::sort(levels);
  double gap = std::abs(levels.front() + levels.back());
  for (std::size_t i = 1; i < levels.size(); ++i) gap = std::max(gap, (double{levels[i]} - levels[i - 1]) / 2);
  const double outermost = std::max(-levels.front(), levels.back()), scale = std::max(-*low, *high) / outermost;
  return scale * gap + outermost * (scale * 0x1p-11 + 0x1p-25);
}

TEST(CodeSearch, errors_stay_below_those_of_plain_rounding) {
  Rng rng(7);
  for (const Format format : searched_formats()) {
    const std::size_t n = format.row_scale ? 4 * block_elements(format) : block_elements(format);  // what shares a scale
    for (const double scale : {1e-6, 0.02, 1.0, 5e3}) {
      for (const double mean : {0.0, -0.5, 3.0}) {
        std::vector<float> x(4 * block_elements(format));
        for (float& v : x) v = static_cast<float>(scale * (rng.normal() + mean));
        const std::size_t block = block_elements(format);
        for (std::size_t i = 0; i < block; ++i) x[i] = i == 3 ? static_cast<float>(-scale) : 0;  // one large value in a block
        for (std::size_t i = block; i < 2 * block; ++i) x[i] = static_cast<float>(scale);
        const std::vector<float> y = round_trip(format, x);
        for (std::size_t b = 0; b < x.size(); b += n) {
          const double bound = element_bound(format, x, b, n);
          EXPECT_LE(squares(x, y, b, n), static_cast<double>(n) * bound * bound * (1 + 1e-6))
              << to_string(format) << " " << scale << " " << mean;
        }
      }
    }
  }
}

TEST(CodeSearch, values_that_a_block_can_have_come_back) {
  Rng rng(11);
  for (const Format format : searched_formats()) {
    const std::size_t n = block_elements(format);
    std::vector<std::uint8_t> codes(n);
    const std::size_t top = (1u << format.bits) - 1;
    for (std::size_t i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(i * top / (n - 1));  // both ends; all, if there is room
    std::vector<std::byte> row(block_bytes(format));
    pack_codes(format, float_to_half(0.0375f), 1, codes.data(), row.data());
    std::vector<float> x(n);
    dequantise_row(format, row.data(), x.data(), n);
    EXPECT_EQ(round_trip(format, x), x) << to_string(format);
  }
}

TEST(CodeSearch, more_bits_and_smaller_groups_err_less) {
  Rng rng(3);
  std::vector<float> x(64 * 128);
  for (float& v : x) v = static_cast<float>(rng.normal() * std::exp(rng.normal()));
  const auto error = [&](std::uint32_t bits, std::uint32_t group, bool zero) {
    return squares(x, round_trip(Format::w(bits, group, zero ? 'z' : '\0'), x), 0, x.size());
  };
  for (const bool zero : {false, true}) {
    for (std::uint32_t bits = 2; bits <= 4; ++bits) {
      EXPECT_LT(error(bits, 32, zero), error(bits, 64, zero));
      EXPECT_LT(error(bits, 64, zero), error(bits, 128, zero));
      EXPECT_LT(error(bits, 64, zero), error(bits - 1, 64, zero));
    }
  }
}

// A scale of its own choice never beats least squares for one bit: the mean magnitude.
TEST(CodeSearch, one_bit_takes_the_mean_magnitude) {
  Rng rng(19);
  std::vector<float> x(128);
  double sum = 0;
  for (float& v : x) {
    v = static_cast<float>(rng.normal());
    sum += std::abs(v);
  }
  const float d = half_to_float(float_to_half(static_cast<float>(sum / 128)));
  const std::vector<float> y = round_trip(Format::w(1, 128), x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] > 0 ? d : -d) << i;
}

TEST(CodeSearch, zeros_and_values_below_every_scale_become_zero) {
  for (const Format format : searched_formats()) {
    for (const float tiny : {0.0f, 1e-30f, -1e-12f}) {
      const std::vector<float> x(block_elements(format), tiny);
      for (const float y : round_trip(format, x)) EXPECT_EQ(y, 0) << to_string(format) << " " << tiny;
    }
  }
}

TEST(CodeSearch, the_largest_codable_value_has_a_finite_scale) {
  for (const Format format : searched_formats()) {
    for (const float sign : {-1.0f, 1.0f}) {
      std::vector<float> x(block_elements(format), sign * largest_codable(format));
      x[1] = -x[0];
      const std::vector<float> y = round_trip(format, x), none(x.size());
      EXPECT_TRUE(std::ranges::all_of(y, [](float v) { return std::isfinite(v); })) << to_string(format);
      EXPECT_LT(squares(x, y, 0, x.size()), 0.5 * squares(x, none, 0, x.size())) << to_string(format);
    }
  }
}

TEST(CodeSearch, a_row_with_one_zero_point_repeats_it) {
  Rng rng(29);
  std::vector<float> x(512);
  for (float& v : x) v = static_cast<float>(rng.normal() + 2);
  for (const std::uint32_t bits : {4u, 8u}) {
    const Format format = Format::w(bits, 64, "zr");
    std::vector<std::byte> row(row_bytes(format, x.size()));
    quantise_row(format, x.data(), row.data(), x.size());
    EXPECT_EQ(first_bad_block(format, row.data(), x.size()), std::nullopt);
    row[3 * block_bytes(format) + 2] ^= std::byte{1};
    EXPECT_EQ(first_bad_block(format, row.data(), x.size()), 3u);
    row[3 * block_bytes(format) + 2] ^= std::byte{1};
    const BlockScale first = block_scale(format, row.data());
    std::vector<float> y(x.size());
    dequantise_row(format, row.data(), y.data(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double top = (1 << bits) - 1, code = std::clamp(std::round(double{x[i]} / first.scale + first.zero), 0.0, top);
      EXPECT_NEAR(y[i], (code - first.zero) * first.scale, 1e-5) << i;
    }
  }
}

TEST(CodeSearch, a_row_with_one_scale_repeats_it) {
  Rng rng(23);
  std::vector<float> x(512);
  for (float& v : x) v = static_cast<float>(rng.normal());
  std::vector<std::byte> row(row_bytes(Format::w(4, 128, 'r'), x.size()));
  quantise_row(Format::w(4, 128, 'r'), x.data(), row.data(), x.size());
  const BlockScale first = block_scale(Format::w(4, 128, 'r'), row.data());
  std::vector<float> y(x.size());
  dequantise_row(Format::w(4, 128, 'r'), row.data(), y.data(), y.size());
  EXPECT_EQ(first_bad_block(Format::w(4, 128, 'r'), row.data(), x.size()), std::nullopt);
  for (std::size_t i = 0; i < x.size(); ++i) {
    // Nothing that the scale can express is nearer.
    const double steps = std::clamp(std::round(double{x[i]} / first.scale), -8.0, 7.0);
    EXPECT_NEAR(y[i], steps * first.scale, 1e-6) << i;
  }
}

TEST(CodeSearch, ternary_is_the_nearest_of_three) {
  std::vector<float> x(128, 0.1f);
  x[0] = 0.26f;
  x[1] = -0.26f;
  x[2] = 7;
  x[3] = -7;
  std::vector<std::byte> row(row_bytes(Format::w(2, 128), 128));
  quantise_ternary(Format::w(2, 128), 0.5f, x.data(), row.data(), 128);
  std::vector<float> y(128);
  dequantise_row(Format::w(2, 128), row.data(), y.data(), 128);
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 5), (std::vector<float>{0.5f, -0.5f, 0.5f, -0.5f, 0}));
}

TEST(CodeSearch, values_that_are_rounded_one_by_one_get_the_codes_of_their_block) {
  Rng rng(21);
  for (const Format format : searched_formats()) {
    const std::size_t n = format.row_scale ? 2 * block_elements(format) : block_elements(format);
    std::vector<float> x(n);
    for (float& v : x) v = static_cast<float>(rng.normal());
    const CodeRounder rounder(format);
    const SharedScale shared = rounder.scale_of(x.data(), n);
    std::vector<std::byte> row(row_bytes(format, n));
    quantise_row(format, x.data(), row.data(), n);
    std::vector<std::uint8_t> codes(n);
    unpack_codes(format, row.data(), n, codes.data());
    const std::vector<float> values = round_trip(format, x);
    for (std::size_t i = 0; i < n; ++i) {
      const CodeRounder::Rounded rounded = rounder.round(shared, x[i]);
      EXPECT_EQ(rounded.code, codes[i]) << to_string(format) << " " << i;
      EXPECT_EQ(rounded.value, values[i]) << to_string(format) << " " << i;
    }
    EXPECT_EQ(rounder.round({0, shared.zero}, 5).value, 0) << to_string(format);
  }
}

}  // namespace
}  // namespace vitro
