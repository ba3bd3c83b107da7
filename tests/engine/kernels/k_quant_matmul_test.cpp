// The int8 contract of K-quants, spelled out for one row from the bytes of the file, beside every set, layout and batch.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "engine/kernels/compute_function.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/float16.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/code_contract.hpp"

namespace vitro::test {
namespace {

int byte_at(const std::byte* p, std::size_t i) { return std::to_integer<int>(p[i]); }
float half_at(const std::byte* p) { return half_to_float(static_cast<std::uint16_t>(byte_at(p, 0) | byte_at(p, 1) << 8)); }

// Of q4_k, or of q5_k, whose blocks have 32 bytes of fifth bits before the nibbles.
float k45_product(Format format, const std::byte* row, const Quantised& x, std::size_t columns) {
  const bool fifth = format == Format::q5_k;
  float acc = 0;
  for (std::size_t c = 0; c < columns; c += kBlock) {
    const std::byte* block = row + c / kSuperBlock * (fifth ? 176 : 144);
    const std::byte* packed = block + 4;
    const std::size_t group = c % kSuperBlock / kBlock;
    const int scale = group < 4 ? byte_at(packed, group) & 63 : (byte_at(packed, group + 4) & 15) | byte_at(packed, group - 4) >> 6 << 4;
    const int minimum = group < 4 ? byte_at(packed, group + 4) & 63 : byte_at(packed, group + 4) >> 4 | byte_at(packed, group) >> 6 << 4;
    int dot = 0, sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      const int both = byte_at(block, (fifth ? 48 : 16) + 32 * (group / 2) + i);
      int q = group % 2 == 0 ? both & 15 : both >> 4;
      if (fifth) q |= (byte_at(block, 16 + i) >> group & 1) << 4;
      dot += q * x.quants[c + i];
      sum += x.quants[c + i];
    }
    const float of_x = x.scales[c / kBlock];
    acc = std::fma(half_at(block + 2) * static_cast<float>(minimum), of_x * static_cast<float>(-sum), acc);
    acc = std::fma(static_cast<float>(dot), half_at(block) * static_cast<float>(scale) * of_x, acc);
  }
  return acc;
}

float q6_k_product(const std::byte* row, const Quantised& x, std::size_t columns) {
  float acc = 0;
  for (std::size_t c = 0; c < columns; c += kBlock / 2) {
    const std::byte* block = row + c / kSuperBlock * 210;
    int dot = 0;
    for (std::size_t i = c % kSuperBlock; i < c % kSuperBlock + kBlock / 2; ++i) {
      const std::size_t half = i / 128, quarter = i % 128 / 32, l = i % 32;
      const int low = byte_at(block, 64 * half + 32 * (quarter % 2) + l) >> quarter / 2 * 4 & 15;
      const int high = byte_at(block, 128 + 32 * half + l) >> 2 * quarter & 3;
      dot += ((low | high << 4) - 32) * x.quants[c / kSuperBlock * kSuperBlock + i];
    }
    const auto scale = static_cast<float>(static_cast<std::int8_t>(byte_at(block, 192 + c % kSuperBlock / 16)));
    acc = std::fma(static_cast<float>(dot), half_at(block + 208) * scale * x.scales[c / kBlock], acc);
  }
  return acc;
}

float iq4_xs_product(const std::byte* row, const Quantised& x, std::size_t columns) {
  float acc = 0;
  for (std::size_t c = 0; c < columns; c += kBlock) {
    const std::byte* block = row + c / kSuperBlock * 136;
    const std::size_t group = c % kSuperBlock / kBlock;
    const int upper = (byte_at(block, 2) | byte_at(block, 3) << 8) >> 2 * group & 3;
    const int lower = byte_at(block, 4 + group / 2) >> 4 * (group % 2) & 15;
    int dot = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      const int both = byte_at(block, 8 + 16 * group + i % 16);
      dot += kIq4Values[i < 16 ? both & 15 : both >> 4] * x.quants[c + i];
    }
    const auto scale = static_cast<float>((upper << 4 | lower) - 32);
    acc = std::fma(static_cast<float>(dot), half_at(block) * scale * x.scales[c / kBlock], acc);
  }
  return acc;
}

float k_product(Format format, const std::byte* row, const Quantised& x, std::size_t columns) {
  if (format == Format::q6_k) return q6_k_product(row, x, columns);
  return format == Format::iq4_xs ? iq4_xs_product(row, x, columns) : k45_product(format, row, x, columns);
}

TEST(KProducts, every_set_and_layout_makes_what_the_contract_says) {
  Rng rng(41);
  for (const Format format : {Format::q4_k, Format::q5_k, Format::q6_k, Format::iq4_xs}) {
    for (const std::uint32_t batch : {1u, 2u, 3u, 5u, 8u, 15u}) {
      const std::uint32_t n = kTileRows * (1 + static_cast<std::uint32_t>(rng.below(3))), k = 256 * (1 + batch % 3);
      const KernelCall in_rows = matmul_call(rng, format, Layout::rows, variant::kInt8, {n, k, batch});
      const View &w = in_rows.in[0], &x = in_rows.in[1];
      std::vector<float> expected;
      for (std::uint32_t b = 0; b < batch; ++b) {
        const Quantised row = quantise(x.as<float>() + b * k, k, kBlock);
        for (std::uint32_t r = 0; r < n; ++r) {
          const std::byte* weights = w.data() + r * row_bytes(format, k);
          expected.push_back(k_product(format, weights, row, k));
        }
      }
      for (const KernelSet* set : kernel_sets()) {
        for (const Layout layout : {Layout::rows, Layout::tiled}) {
          KernelCall call = with_own_output(in_rows);
          if (layout == Layout::tiled) call.in[0] = laid(w, layout, 1);
          ComputeFunction({std::string(set->name)}).execute(call);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ(call.out[0].as<float>()[i], expected[i])
                << set->name << " " << to_string(format) << " " << to_string(layout) << " " << i;
          }
        }
      }
    }
  }
}

// The largest integers there are: codes of 15 and 31 with scales of 63, codes of -32 with scales of -128, activations of one size. Each
// block's sums are exact, so the products are those of the dequantised row, which no rounding moves either.
TEST(KProducts, the_largest_integers_are_exact) {
  for (const Format format : {Format::q4_k, Format::q5_k, Format::q6_k}) {
    Rng rng(42);
    KernelCall call = matmul_call(rng, format, Layout::rows, variant::kInt8, {16, 256, 1});
    View& w = call.in[0];
    const std::size_t row = row_bytes(format, 256);
    for (std::size_t r = 0; r < 16; ++r) {
      std::byte* block = w.data() + r * row;
      std::fill_n(block, row, format == Format::q6_k ? std::byte{0} : std::byte{0xff});
      const std::size_t half = format == Format::q6_k ? 208 : 0;
      block[half] = std::byte{0}, block[half + 1] = std::byte{0x3c};  // 1
      if (format != Format::q6_k) block[2] = std::byte{0}, block[3] = std::byte{0x3c};
      if (format == Format::q6_k) std::fill_n(block + 192, 16, std::byte{0x80});
    }
    for (std::size_t i = 0; i < 256; ++i) call.in[1].as<float>()[i] = 127;
    const float expected = format == Format::q6_k ? 256 * 127 * 32.0f * 128 : 256 * 127 * (63.0f * (format == Format::q5_k ? 31 : 15) - 63);
    for (const KernelSet* set : kernel_sets()) {
      ComputeFunction({std::string(set->name)}).execute(call);
      EXPECT_EQ(call.out[0].as<float>()[0], expected) << set->name << " " << to_string(format);
      EXPECT_EQ(call.out[0].as<float>()[15], expected) << set->name << " " << to_string(format);
    }
  }
}

}  // namespace
}  // namespace vitro::test
