#include "engine/kernels/common/pack_kv.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

// Every set has to write the bytes of the scalar code and no other, from floats that are aligned to no vector, to bytes aligned to nothing.
void expect_same(Format format, std::uint32_t which, const std::vector<float>& x, const std::string& what) {
  const auto dim = static_cast<std::uint32_t>(x.size());
  const std::size_t bytes = kv_row_bytes(format, which, dim);
  std::vector<float> moved(dim + 1);
  std::copy(x.begin(), x.end(), moved.begin() + 1);
  const float* from = moved.data() + 1;
  std::vector<std::byte> expected(bytes), found(bytes + 2, std::byte{0x5a});
  write_kv_row(format, which, x.data(), dim, expected.data());
  for (const KernelSet* set : kernel_sets()) {
    for (const bool aligned : {true, false}) {
      std::fill(found.begin(), found.end(), std::byte{0x5a});
      set->pack_kv(format, which, aligned ? x.data() : from, dim, found.data() + 1);
      EXPECT_EQ(found.front(), std::byte{0x5a}) << set->name << " wrote before its row";
      EXPECT_EQ(found.back(), std::byte{0x5a}) << set->name << " wrote behind its row";
      for (std::size_t i = 0; i < bytes; ++i) {
        ASSERT_EQ(found[i + 1], expected[i]) << set->name << ", " << to_string(format) << " " << which << ", dim " << dim << ", " << what
                                             << ": byte " << i << (i < dim ? ", of " + std::to_string(x[i]) : "");
      }
    }
  }
}

// Rows as models have them, and such as none should: one number, no number, infinities, both zeros, subnormal numbers, numbers on the
// border between two codes.
std::vector<float> random_row(Rng& rng, std::uint32_t dim, int kind) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity(), kNone = std::numeric_limits<float>::quiet_NaN();
  const float size = std::ldexp(1.0f, static_cast<int>(rng.below(40)) - 20);
  const auto shift = static_cast<float>(rng.normal());
  std::vector<float> x(dim);
  for (float& value : x) value = size * (static_cast<float>(rng.normal()) + shift);
  const auto some = [&](float value) {
    for (std::uint32_t i = 0; i < 1 + dim / 8; ++i) x[rng.below(dim)] = value;
  };
  switch (kind) {
    case 1: some(kNone); break;
    case 2: some(kInfinite); break;
    case 3: some(-kInfinite); break;
    case 4: some(rng.below(2) == 0 ? -0.0f : 0.0f); break;
    case 5: for (float& value : x) value = std::abs(value); some(-0.0f); some(0.0f); break;
    case 6: std::fill(x.begin(), x.end(), size * shift); break;
    case 7: std::fill(x.begin(), x.end(), kNone); break;
    case 8: for (float& value : x) value *= 0x1p-126f; break;
    case 9: for (float& value : x) value = static_cast<float>(rng.below(511)) * 0.5f * size; break;  // half steps of an int8 key
    case 10: for (float& value : x) value = static_cast<float>(rng.below(31)) * 0.5f; break;         // of an int4 one
    case 11: for (float& value : x) value *= 0x1p126f; break;
    case 12: std::fill(x.begin(), x.end(), -0.0f); some(0.0f); break;
    default: break;
  }
  return x;
}

TEST(PackKv, every_set_writes_rows_as_the_format_says) {
  Rng rng(52);
  for (const Format format : kKvFormats) {
    if (!format.is_for_kv()) continue;
    for (const std::uint32_t dim : {1u,  2u,  15u, 16u, 17u,  31u,  32u,  33u,  47u,  48u,  63u,  64u,  65u,
                                    80u, 96u, 97u, 112u, 128u, 256u, 271u, 300u, 511u, 512u, 513u, 544u, 1100u}) {
      for (int kind = 0; kind < 13; ++kind) {
        for (const std::uint32_t which : {0u, 1u}) {
          for (int i = 0; i < 3; ++i) expect_same(format, which, random_row(rng, dim, kind), "kind " + std::to_string(kind));
        }
      }
    }
  }
}

// Each float's upper half, behind which come what cuts to either side and a tie.
TEST(PackKv, fp8_is_rounded_as_its_format_says_over_all_exponents_and_fractions) {
  for (const Format format : {Format::int8_fp8, Format::int8_e5m2}) {
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      std::vector<float> x(65536);
      for (std::uint32_t high = 0; high < x.size(); ++high) x[high] = std::bit_cast<float>(high << 16 | low);
      expect_same(format, 1, x, "lower half " + std::to_string(low));
    }
  }
}

}  // namespace
}  // namespace vitro
