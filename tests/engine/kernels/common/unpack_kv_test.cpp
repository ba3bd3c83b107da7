#include "engine/kernels/common/unpack_kv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

// The payload of what is no number is not promised.
bool same(float found, float expected) {
  return std::isnan(expected) ? std::isnan(found) : std::memcmp(&found, &expected, sizeof(float)) == 0;
}

// Any bytes: scales are subnormal, infinite or no numbers now and then.
TEST(UnpackKv, every_set_reads_rows_as_the_format_says) {
  Rng rng(51);
  for (const Format format : kKvFormats) {
    if (!format.is_for_kv()) continue;
    for (const std::uint32_t dim : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 47u, 48u, 63u, 64u, 80u, 96u, 97u, 128u, 256u, 271u, 300u}) {
      for (const std::uint32_t which : {0u, 1u}) {
        constexpr std::size_t kRows = 3;
        const std::size_t bytes = kv_row_bytes(format, which, dim);
        std::vector<std::byte> rows(kRows * bytes + 1);
        for (std::byte& b : rows) b = static_cast<std::byte>(rng.next());
        std::vector<float> expected(kRows * dim), found(kRows * dim + 1);
        for (std::size_t r = 0; r < kRows; ++r) read_kv_row(format, which, rows.data() + 1 + r * bytes, dim, expected.data() + r * dim);
        for (const KernelSet* set : kernel_sets()) {
          found.back() = -7;
          set->unpack_kv(format, which, rows.data() + 1, kRows, dim, found.data());  // aligned to nothing
          EXPECT_EQ(found.back(), -7) << "wrote behind its end";
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_TRUE(same(found[i], expected[i])) << set->name << ", " << to_string(format) << " " << which << ", dim " << dim
                                                     << ": element " << i << " is " << found[i] << " (expected " << expected[i] << ")";
          }
        }
      }
    }
  }
}

TEST(UnpackKv, every_code_of_fp8_is_read_as_its_number) {
  std::vector<std::byte> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  for (const Format format : {Format::int8_fp8, Format::int8_e5m2}) {
    std::vector<float> expected(256), found(256);
    read_kv_row(format, 1, codes.data(), 256, expected.data());
    for (const KernelSet* set : kernel_sets()) {
      set->unpack_kv(format, 1, codes.data(), 1, 256, found.data());
      for (std::size_t i = 0; i < 256; ++i) ASSERT_TRUE(same(found[i], expected[i])) << set->name << ", " << to_string(format) << " " << i;
    }
  }
}

}  // namespace
}  // namespace vitro
