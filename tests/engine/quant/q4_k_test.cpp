#include "engine/quant/q4_k.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::vector<float> round_trip(const std::vector<float>& x) {
  std::vector<std::byte> row(row_bytes(Format::q4_k, x.size()));
  std::vector<float> y(x.size());
  quantise_row(Format::q4_k, x.data(), row.data(), x.size());
  dequantise_row(Format::q4_k, row.data(), y.data(), y.size());
  return y;
}

// Half a step of min/max rounding per group, and what six bits cost: half of 1/63 of the block's largest minimum, and that of its
// largest scale for each of 15 codes; binary16 costs the two units 2^-11 each.
TEST(Q4K, errors_stay_within_rounding_of_range_scales_and_minima) {
  Rng rng(41);
  for (const double size : {1e-3, 1.0, 1e4}) {
    for (const double mean : {0.0, 2.0, -1.0}) {
      std::vector<float> x(1024);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(size * (rng.normal() + mean) * (1 + (i / 32) % 4));
      const std::vector<float> y = round_trip(x);
      for (std::size_t block = 0; block < x.size(); block += kSuperBlock) {
        double range = 0, lowest = 0;
        for (std::size_t i = block; i < block + kSuperBlock; i += kBlock) {
          const auto [low, high] =
              std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(i), x.begin() + static_cast<std::ptrdiff_t>(i + kBlock));
          range = std::max(range, double{*high} - std::min(0.0, double{*low}));
          lowest = std::max(lowest, -double{*low});
        }
        // Shrinking moves the ends by up to 0.1 / 0.9 of the range outwards.
        const double scale = range / 15 / 0.9, minimum = lowest / 0.9;
        const double bound = 2 * (scale / 2 + minimum / 126 + 15 * scale / 126 + (15 * scale + minimum) * 0x1p-11);
        for (std::size_t i = block; i < block + kSuperBlock; ++i)
          ASSERT_LE(std::abs(x[i] - y[i]), bound) << size << " " << mean << " " << i;
      }
    }
  }
}

TEST(Q4K, errs_less_than_q4_0_where_values_are_not_centred) {
  Rng rng(43);
  std::vector<float> x(4096);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(rng.normal() + std::sin(static_cast<double>(i / 32)));
  std::vector<std::byte> row(row_bytes(Format::q4_0, x.size()));
  std::vector<float> plain(x.size());
  quantise_row(Format::q4_0, x.data(), row.data(), x.size());
  dequantise_row(Format::q4_0, row.data(), plain.data(), plain.size());
  const std::vector<float> ours = round_trip(x);
  double a = 0, b = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    a += std::pow(ours[i] - x[i], 2);
    b += std::pow(plain[i] - x[i], 2);
  }
  EXPECT_LT(a, 0.8 * b);
}

TEST(Q4K, constants_and_zeros_come_back) {
  for (const float value : {0.0f, -0.5f, 3.0f}) {
    for (const float y : round_trip(std::vector<float>(256, value))) EXPECT_NEAR(y, value, std::abs(value) * 0x1p-9f);
  }
}

}  // namespace
}  // namespace vitro
