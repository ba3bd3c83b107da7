// Products of integer codes, looked up or computed: the bits of code_contract.hpp, on every set of this machine and in every layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/ops/code_form.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/tiles.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/code_contract.hpp"

namespace vitro {
namespace {

using namespace test;

std::vector<Format> code_formats() {
  const std::set<Format> formats = formats_with(Layout::lut);
  return {formats.begin(), formats.end()};
}

// And those that dot products alone take.
std::vector<Format> dot_formats() {
  std::vector<Format> formats;
  for (const Format format : formats_with(Layout::tiled)) {
    if (code_form(format) && format.has_codes()) formats.push_back(format);
  }
  return formats;
}

// Every code and, where there is one, zero point with equal chance: quantisers make neither.
void randomise(Rng& rng, const View& w) {
  const std::size_t block = block_elements(w.format), row_blocks = w.shape[1] / block;
  std::uint16_t scale = 0;
  std::uint8_t zero = 0;
  const std::uint32_t most = 1u << w.format.bits;
  std::vector<std::uint8_t> codes(block);
  for (std::size_t b = 0; b < elements(w) / block; ++b) {
    for (auto& q : codes) q = static_cast<std::uint8_t>(rng.below(most));
    if (!w.format.row_scale || b % row_blocks == 0) {
      zero = static_cast<std::uint8_t>(w.format.zero_point ? rng.below(most) : 0);
      scale = static_cast<std::uint16_t>(0x2000 + rng.below(0x400));
    }
    pack_codes(w.format, scale, zero, codes.data(), w.data() + b * block_bytes(w.format));
  }
}

KernelCall laid(const KernelCall& in_rows, Layout layout) {
  KernelCall call = with_own_output(in_rows);
  if (layout != Layout::rows) call.in[0] = test::laid(in_rows.in[0], layout, 1);
  return call;
}

void expect_products(const KernelCall& in_rows, const std::string& what) {
  const View &w = in_rows.in[0], &x = in_rows.in[1];
  const std::uint32_t n = w.shape[0], k = w.shape[1];
  std::vector<float> expected;
  for (std::uint32_t b = 0; b < x.shape[0]; ++b) {
    const Quantised row = quantise(x.as<float>() + b * k, k, block_elements(w.format));
    for (std::uint32_t r = 0; r < n; ++r) expected.push_back(product(w.format, w.data() + r * row_bytes(w.format, k), row, k));
  }
  for (const KernelSet* set : kernel_sets()) {
    for (const Layout layout : {Layout::rows, Layout::tiled, Layout::lut}) {
      if (!variant::supports(variant::kInt8, w.format, layout)) continue;
      const KernelCall call = laid(in_rows, layout);
      ComputeFunction({std::string(set->name)}).execute(call);
      const float* y = call.out[0].as<float>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(y[i], expected[i]) << set->name << " " << to_string(w.format) << " " << to_string(layout) << " " << what << " " << i;
      }
    }
  }
}

TEST(CodeMatmul, rounded_tables_equal_their_reference_and_are_near_the_exact_ones) {
  Rng rng(32);
  double most = 0;  // of the bound that a product took
  for (const Format format : code_formats()) {
    for (const std::uint32_t batch : {1u, 2u, 7u}) {
      const std::uint32_t n = kTileRows * (1 + static_cast<std::uint32_t>(rng.below(3)));
      const std::uint32_t k = static_cast<std::uint32_t>(block_elements(format)) * (1 + static_cast<std::uint32_t>(rng.below(5)));
      KernelCall in_rows = matmul_call(rng, format, Layout::rows, variant::kInt8, {n, k, batch});
      randomise(rng, in_rows.in[0]);
      if (batch == 2) std::fill_n(in_rows.in[1].as<float>(), k / 2 + 5, 0.0f);  // a block of zeros, and one with a single sum
      std::vector<Rounded> expected;
      for (std::uint32_t b = 0; b < batch; ++b) {
        const Quantised row = quantise(in_rows.in[1].as<float>() + b * k, k, block_elements(format));
        for (std::uint32_t r = 0; r < n; ++r) {
          const std::byte* weights = in_rows.in[0].data() + r * row_bytes(format, k);
          expected.push_back(rounded_product(format, weights, row, k));
          const double off = std::abs(double{expected.back().value} - double{product(format, weights, row, k)});
          ASSERT_LE(off, expected.back().bound) << to_string(format);
          most = std::max(most, expected.back().bound > 0 ? off / expected.back().bound : 0);
        }
      }
      for (const KernelSet* set : kernel_sets()) {
        for (const Layout layout : {Layout::rows, Layout::lut}) {
          KernelCall call = laid(in_rows, layout);
          call.variant = variant::kInt8Tables;
          if (!variant::supports(call.variant, format, layout)) continue;  // q4_0 in rows
          ComputeFunction({std::string(set->name)}).execute(call);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ(call.out[0].as<float>()[i], expected[i].value)
                << set->name << " " << to_string(format) << " " << to_string(layout) << " batch " << batch << " " << i;
          }
        }
      }
    }
  }
  EXPECT_GT(most, 0.05);  // a bound that nothing comes near would hold for anything
}

// The most that sums of 16 bits have to hold: all entries at their ends, all bits set.
TEST(CodeMatmul, rounded_tables_hold_their_largest_sums) {
  Rng rng(33);
  for (const Format format : {Format::w(4, 128), Format::w(4, 64, 'z'), Format::w(1, 128), Format::w(3, 32)}) {
    KernelCall call = matmul_call(rng, format, Layout::rows, variant::kInt8Tables, {16, 256, 1});
    for (const int sign : {1, -1}) {
      std::fill_n(call.in[1].as<float>(), 256, static_cast<float>(sign));
      const std::size_t block = block_elements(format);
      const std::vector<std::uint8_t> codes(block, static_cast<std::uint8_t>((1u << format.bits) - 1));
      for (std::size_t b = 0; b < 16 * 256 / block; ++b) {
        pack_codes(format, 0x3c00, 0, codes.data(), call.in[0].data() + b * block_bytes(format));
      }
      const float exact = product(format, call.in[0].data(), quantise(call.in[1].as<float>(), 256, block), 256);
      for (const KernelSet* set : kernel_sets()) {
        const KernelCall tiled = laid(call, Layout::lut);
        ComputeFunction({std::string(set->name)}).execute(tiled);
        for (std::uint32_t r = 0; r < 16; ++r) ASSERT_NEAR(tiled.out[0].as<float>()[r], exact, 1e-5 * std::abs(exact)) << set->name;
      }
    }
  }
}

TEST(CodeMatmul, equal_the_reference_for_every_format_layout_set_and_batch) {
  Rng rng(31);
  for (const Format format : dot_formats()) {
    // One group of rows to five, one block to a few: tiles that are taken together, and what is left over.
    for (const std::uint32_t batch : {1u, 2u, 5u, 8u, 11u}) {
      const std::uint32_t n = kTileRows * (1 + static_cast<std::uint32_t>(rng.below(6)));
      const std::uint32_t k = static_cast<std::uint32_t>(block_elements(format)) * (1 + static_cast<std::uint32_t>(rng.below(4)));
      const KernelCall call = matmul_call(rng, format, Layout::rows, variant::kInt8, {n, k, batch});
      randomise(rng, call.in[0]);
      expect_products(call, "batch " + std::to_string(batch));
    }
  }
}

// One scale per row is a promise about w*g* and w*g*z, not other arithmetic: the same blocks under either name give the same bits.
TEST(CodeMatmul, one_scale_per_row_has_the_bits_of_scales_that_are_repeated) {
  Rng rng(35);
  for (const Format format : dot_formats()) {
    if (!format.row_scale) continue;
    for (const std::uint32_t batch : {1u, 3u, 6u}) {
      KernelCall once = matmul_call(rng, format, Layout::rows, variant::kInt8, {80, std::uint32_t{4} * format.block, batch});
      randomise(rng, once.in[0]);
      KernelCall repeated = with_own_output(once);
      repeated.in[0].format.row_scale = false;
      for (const VariantId variant : {variant::kInt8, variant::kInt8Tables, variant::kInt8Rows, variant::kFloat, variant::kHmx}) {
        for (const KernelSet* set : kernel_sets()) {
          for (const Layout layout : {Layout::rows, Layout::tiled, Layout::lut}) {
            if (!variant::supports(variant, format, layout)) continue;
            ASSERT_TRUE(exists(repeated.in[0].format));
            KernelCall one = laid(once, layout), each = laid(repeated, layout);
            one.variant = each.variant = variant;
            ComputeFunction({std::string(set->name)}).execute(one);
            ComputeFunction({std::string(set->name)}).execute(each);
            EXPECT_EQ(bytes_of(one.out[0]), bytes_of(each.out[0]))
                << set->name << " " << to_string(format) << " " << to_string(layout) << " " << variant::name(variant);
            if (layout != Layout::rows) {
              const Bytes zeros = format.zero_point ? format.bits * 4 / 8 - 1 : 0;
              const Bytes spared = 80 * (2 * 3 + zeros);  // all blocks of a row but one
              EXPECT_EQ(count(one).read[0], count(each).read[0] - spared) << to_string(layout);
            }
          }
        }
      }
    }
  }
}

// All look-ups find their table's largest or least entry: sums in bytes reach the most that they may.
TEST(CodeMatmul, hold_at_the_ends_of_their_ranges) {
  Rng rng(32);
  for (const Format format : dot_formats()) {
    for (int which = 0; which < 8; ++which) {
      const std::uint32_t k = 2 * static_cast<std::uint32_t>(block_elements(format)), most = (1u << format.bits) - 1;
      const KernelCall call = matmul_call(rng, format, Layout::rows, variant::kInt8, {kTileRows, k, 1});
      const bool alternating = (which & 4) != 0;
      for (std::uint32_t i = 0; i < k; ++i) {
        const bool negative = (which & 1) != 0;
        call.in[1].as<float>()[i] = (alternating && i % 2 == 1) != negative ? -1.0f : 1.0f;
      }
      const std::size_t block = block_elements(format);
      std::vector<std::uint8_t> codes(block);
      for (std::size_t i = 0; i < block; ++i) {
        const bool high = (which & 2) != 0;
        codes[i] = static_cast<std::uint8_t>((alternating && i % 2 == 1) != high ? most : 0);
      }
      for (std::size_t b = 0; b < elements(call.in[0]) / block; ++b) {
        pack_codes(format, 0x3c00, 0, codes.data(), call.in[0].data() + b * block_bytes(format));
      }
      expect_products(call, "case " + std::to_string(which));
    }
  }
}

TEST(CodeMatmul, tables_hold_the_sums_of_the_reference_less_the_least_of_them) {
  Rng rng(33);
  constexpr std::size_t kColumns = 256, kRows = 3;
  const CodeForm form = code_form(Format::w(2, 64)).value();
  const std::size_t blocks = kColumns / form.group;
  std::vector<std::int8_t> quants(kColumns * kRows);  // [blocks, rows, group]
  for (auto& q : quants) q = static_cast<std::int8_t>(static_cast<int>(rng.below(255)) - 127);
  for (const KernelSet* set : kernel_sets()) {
    std::vector<std::byte> tables(kRows * kColumns * 8);
    std::vector<std::int32_t> minima(blocks * kRows);
    set->tables(form, {quants.data(), nullptr, nullptr, blocks, kRows}, tables.data(), minima.data());
    for (std::size_t m = 0; m < kRows; ++m) {
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::int8_t* x = &quants[(b * kRows + m) * form.group];
        const std::vector<std::int16_t> signed_sums = lut::precompute(x, form.group);
        std::int32_t taken = 0;
        for (std::size_t g = 0; g < form.group / 4; ++g) {
          const std::byte* table = &tables[(m * blocks + b) * form.group * 8 + g / 8 * 256 + g % 2 * 128 + g % 8 / 2 * 16];
          std::int32_t sum = 0, least = 0;
          for (std::size_t j = 0; j < 4; ++j) {
            sum += x[4 * g + j];
            least += std::min<std::int32_t>(x[4 * g + j], 0);
          }
          taken += least;
          for (std::size_t e = 0; e < 16; ++e) {
            const int low = std::to_integer<int>(table[e]), high = std::to_integer<int>(table[e + 64]);
            ASSERT_LE(low, 15);
            ASSERT_LE(high, 31);
            ASSERT_EQ(2 * (low + 16 * high + least), signed_sums[16 * g + e] + sum) << set->name;
          }
        }
        EXPECT_EQ(minima[b * kRows + m], taken);
      }
    }
  }
}

TEST(CodeMatmul, bit_planes_unpack_to_the_codes_of_their_columns) {
  Rng rng(34);
  for (const Format format : code_formats()) {
    const auto block = static_cast<std::uint32_t>(block_elements(format));
    constexpr std::uint32_t kBlocks = 5;
    const std::uint32_t k = kBlocks * block;
    const View w = weights(rng, kTileRows, k, format, Layout::rows);
    randomise(rng, w);
    const View tile = test::laid(w, Layout::lut);
    CodeForm form = code_form(format).value(), unpacked = form;
    unpacked.stored_bits = 8;
    std::vector<std::uint8_t> codes(kTileRows * k);
    for (std::uint32_t r = 0; r < kTileRows; ++r) unpack_codes(format, w.data() + r * row_bytes(format, k), k, &codes[r * k]);
    for (const KernelSet* set : kernel_sets()) {
      std::vector<std::byte> bytes(unpacked.tile_bytes(kBlocks));
      set->unpack_planes(form, tile.data(), kBlocks, bytes.data());
      for (std::uint32_t r = 0; r < kTileRows; ++r) {
        for (std::uint32_t c = 0; c < k; ++c) {
          const std::size_t in_block = form.head_bytes() + c % block / 4 * 64 + r * 4 + c % 4;
          const std::size_t at = unpacked.lead_bytes(kBlocks) + c / block * unpacked.tile_block_bytes() + in_block;
          ASSERT_EQ(std::to_integer<int>(bytes[at]), codes[r * k + c]) << set->name << " " << to_string(format);
        }
      }
    }
  }
}

// Codes that name values: the contract from code_table(), in rows and tiles.
TEST(CodeMatmul, of_iq4_nl_and_fp4_are_those_of_their_tables) {
  Rng rng(35);
  for (const Format format : {Format::iq4_nl, Format::fp4}) {
    const float unit = format == Format::fp4 ? 0.5f : 1.0f;
    for (const std::uint32_t batch : {1u, 3u, 9u}) {
      const std::uint32_t n = 48, k = 96;
      const KernelCall in_rows = matmul_call(rng, format, Layout::rows, variant::kInt8, {n, k, batch});
      randomise(rng, in_rows.in[0]);
      for (const KernelSet* set : kernel_sets()) {
        for (const Layout layout : {Layout::rows, Layout::tiled}) {
          const KernelCall call = laid(in_rows, layout);
          ComputeFunction({std::string(set->name)}).execute(call);
          for (std::uint32_t b = 0; b < batch; ++b) {
            const Quantised x = quantise(call.in[1].as<float>() + b * k, k, 32);
            for (std::uint32_t r = 0; r < n; ++r) {
              const std::byte* row = in_rows.in[0].data() + r * row_bytes(format, k);
              std::vector<std::uint8_t> codes(k);
              unpack_codes(format, row, k, codes.data());
              float acc = 0;
              for (std::size_t i = 0; i < k / 32; ++i) {
                std::int32_t dot = 0;
                for (std::size_t c = 32 * i; c < 32 * (i + 1); ++c) {
                  dot += static_cast<std::int32_t>((*code_table(format))[codes[c]] / unit) * x.quants[c];
                }
                const float scale = block_scale(format, row + i * block_bytes(format)).scale;
                acc = std::fma(static_cast<float>(dot), scale * unit * x.scales[i], acc);
              }
              ASSERT_EQ(call.out[0].as<float>()[b * n + r], acc) << set->name << " " << to_string(format) << " " << to_string(layout);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace vitro
