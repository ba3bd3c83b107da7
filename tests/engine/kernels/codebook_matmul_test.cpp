// The int8 contract of codebooks, spelled out for one row from the values of the format and its scales, beside every set and batch.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/kernels/compute_function.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/float16.hpp"
#include "engine/quant/load16.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/code_contract.hpp"

namespace vitro::test {
namespace {

constexpr Format kFormats[] = {Format::iq1_s, Format::iq1_m,   Format::iq2_xxs, Format::iq2_xs,
                               Format::iq2_s, Format::iq3_xxs, Format::iq3_s};

unsigned unsigned_at(const std::byte* p, std::size_t i) { return std::to_integer<unsigned>(p[i]); }

// Columns that share a scale, and the scale of a column of a block: d times an odd integer and the format's unit.
std::size_t run_of(Format format) { return format == Format::iq1_m || format == Format::iq2_xs || format == Format::iq2_s ? 16 : 32; }
float scale_of(Format format, const std::byte* block, std::size_t column) {
  const std::size_t group = column / 32, half = column % 32 / 16;
  const float d = half_to_float(load16(block));
  if (format == Format::iq2_xxs) return d * (0.5f + static_cast<float>(unsigned_at(block, 9 + 8 * group) >> 4)) / 4;
  if (format == Format::iq2_xs) return d * (0.5f + static_cast<float>(unsigned_at(block, 66 + group) >> 4 * half & 15)) / 4;
  if (format == Format::iq2_s) return d * (0.5f + static_cast<float>(unsigned_at(block, 74 + group) >> 4 * half & 15)) / 4;
  if (format == Format::iq3_xxs) return d * (0.5f + static_cast<float>(unsigned_at(block, 69 + 4 * group) >> 4)) / 2;
  if (format == Format::iq3_s) return d * (1 + 2 * static_cast<float>(unsigned_at(block, 106 + group / 2) >> 4 * (group % 2) & 15));
  if (format == Format::iq1_s) return d * (1 + 2 * static_cast<float>(unsigned_at(block, 35 + 2 * group) >> 4 & 7)) / 8;
  unsigned bits = 0;
  for (std::size_t i = 0; i < 4; ++i) bits |= (unsigned_at(block, 49 + 2 * i) >> 4) << 4 * i;
  const unsigned scales = load16(block + 48 + 2 * (column / 64));
  return half_to_float(static_cast<std::uint16_t>(bits)) * (1 + 2 * static_cast<float>(scales >> 3 * (column % 64 / 16) & 7)) / 8;
}

float expected_product(Format format, const std::byte* row, const Quantised& x, std::size_t columns) {
  std::vector<float> values(columns);
  dequantise_row(format, row, values.data(), columns);
  float acc = 0;
  for (std::size_t c = 0; c < columns; c += run_of(format)) {
    const float scale = scale_of(format, row + c / kSuperBlock * block_bytes(format), c % kSuperBlock);
    int dot = 0;
    for (std::size_t i = c; i < c + run_of(format); ++i) {
      const float whole = values[i] / scale;  // exact, as the value is
      EXPECT_EQ(whole, std::nearbyint(whole)) << to_string(format);
      dot += static_cast<int>(whole) * x.quants[i];
    }
    acc = std::fma(static_cast<float>(dot), scale * x.scales[c / kBlock], acc);
  }
  return acc;
}

TEST(CodebookProducts, every_set_makes_what_the_contract_says) {
  Rng rng(43);
  for (const Format format : kFormats) {
    for (const std::uint32_t batch : {1u, 2u, 3u, 5u, 8u, 15u}) {
      const std::uint32_t n = 1 + static_cast<std::uint32_t>(rng.below(40)), k = 256 * (1 + batch % 3);
      const KernelCall call = matmul_call(rng, format, Layout::rows, variant::kInt8, {n, k, batch}, false, 1);
      const View &w = call.in[0], &x = call.in[1];
      std::vector<float> expected;
      for (std::uint32_t b = 0; b < batch; ++b) {
        const Quantised row = quantise(x.as<float>() + b * k, k, kBlock);
        for (std::uint32_t r = 0; r < n; ++r) expected.push_back(expected_product(format, w.data() + r * row_bytes(format, k), row, k));
      }
      for (const KernelSet* set : kernel_sets()) {
        const KernelCall its = with_own_output(call);
        ComputeFunction({std::string(set->name)}).execute(its);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(its.out[0].as<float>()[i], expected[i]) << set->name << " " << to_string(format) << " " << i;
        }
      }
    }
  }
}

TEST(CodebookProducts, have_no_other_layout_than_rows) {
  for (const Format format : kFormats) {
    EXPECT_TRUE(variant::supports(variant::kInt8, format, Layout::rows));
    for (const Layout layout : {Layout::tiled, Layout::lut, Layout::strips}) {
      EXPECT_FALSE(variant::supports(variant::kInt8, format, layout)) << to_string(layout);
    }
    EXPECT_FALSE(variant::supports(variant::kInt8Tables, format, Layout::rows));
    EXPECT_FALSE(variant::supports(variant::kInt8Rows, format, Layout::rows));
  }
}

}  // namespace
}  // namespace vitro::test
