#include "engine/kernels/common/block_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/base/rng.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro {
namespace {

constexpr std::size_t kColumns = 3 * kSuperBlock;

// Any bytes: scales are subnormal, infinite or no numbers now and then.
std::vector<std::byte> random_bytes(std::size_t n, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  return bytes;
}

// The payload of what is no number is not promised.
void expect_same(const std::vector<float>& found, const std::vector<float>& expected, std::string_view set) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool equal = std::isnan(expected[i]) ? std::isnan(found[i]) : std::memcmp(&found[i], &expected[i], sizeof(float)) == 0;
    ASSERT_TRUE(equal) << set << ": element " << i << " is " << found[i] << " (expected " << expected[i] << ")";
  }
}

TEST(BlockRows, every_set_dequantises_as_the_format_says) {
  for (const Format format :
       {Format::q4_0, Format::q8_0, Format::q4_k, Format::q5_k, Format::q6_k, Format::w(2, 64, 'z'), Format::iq1_s, Format::iq1_m,
        Format::iq2_xxs, Format::iq2_xs, Format::iq2_s, Format::iq3_xxs, Format::iq3_s}) {
    SCOPED_TRACE(std::string(to_string(format)));
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::vector<std::byte> row = random_bytes(row_bytes(format, kColumns) + 1, seed);
      std::vector<float> expected(kColumns), found(kColumns);
      dequantise_row(format, row.data() + 1, expected.data(), kColumns);  // aligned to nothing
      for (const KernelSet* set : kernel_sets()) {
        set->dequantise(format, row.data() + 1, found.data(), kColumns);
        expect_same(found, expected, set->name);
      }
    }
  }
}

// Positions have to be those of columns; all else is any bytes, and values at positions are the outliers'.
TEST(BlockRows, every_set_puts_outliers_where_they_belong) {
  const OutlierRow at{kColumns};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<std::byte> row = random_bytes(at.bytes() + 1, seed);
    for (std::size_t j = 0; j < at.outliers(); ++j) {
      const std::size_t k = seed * 3 + j * 90;
      row[1 + at.positions() + 2 * j] = static_cast<std::byte>(k & 255);
      row[1 + at.positions() + 2 * j + 1] = static_cast<std::byte>(k >> 8);
    }
    std::vector<float> expected(kColumns), found(kColumns);
    dequantise_row(Format::w4_outliers, row.data() + 1, expected.data(), kColumns);
    for (const KernelSet* set : kernel_sets()) {
      set->dequantise(Format::w4_outliers, row.data() + 1, found.data(), kColumns);
      expect_same(found, expected, set->name);
    }
  }
}

TEST(BlockRows, nibbles_with_their_scales_apart_are_those_of_q4_0) {
  const std::vector<std::byte> nibbles = random_bytes(kColumns / 2, 1), scales = random_bytes(kColumns / 16, 2);
  std::vector<float> expected(kColumns), found(kColumns);
  dequantise_nibbles(nibbles.data(), scales.data(), expected.data(), kColumns);
  for (const KernelSet* set : kernel_sets()) {
    set->dequantise_nibbles(nibbles.data(), scales.data(), found.data(), kColumns);
    expect_same(found, expected, set->name);
  }
}

}  // namespace
}  // namespace vitro
