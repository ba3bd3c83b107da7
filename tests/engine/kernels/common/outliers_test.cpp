// The int8 contract of w4_outliers spelled out for one row from its bytes, on every set of this machine and in every layout.
#include "engine/kernels/common/outliers.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/kernels/compute_function.hpp"
#include "engine/ops/code_form.hpp"
#include "engine/ops/variants.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/code_contract.hpp"

namespace vitro {
namespace {

using namespace test;

std::uint16_t word(const std::byte* p) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(p[0]) | std::to_integer<unsigned>(p[1]) << 8);
}

float expected_product(const std::byte* row, const Quantised& rounded, const float* x, std::size_t n) {
  const OutlierRow at{n};
  const float d = half_to_float(word(row + at.scale())), e = half_to_float(word(row + at.outlier_scale()));
  float acc = 0;
  for (std::size_t b = 0; b < n / 32; ++b) {
    std::int32_t dot = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      const int both = std::to_integer<int>(row[at.nibbles() + 16 * b + i % 16]);
      dot += ((i < 16 ? both & 15 : both >> 4) - 8) * rounded.quants[32 * b + i];
    }
    acc = std::fma(static_cast<float>(dot), d * rounded.scales[b], acc);
  }
  for (std::size_t j = 0; j < at.outliers(); ++j) {
    const auto value = static_cast<float>(static_cast<std::int8_t>(row[at.values() + j]));
    acc = std::fma(e * value, x[word(row + at.positions() + 2 * j)], acc);
  }
  return acc;
}

void expect_products(const KernelCall& in_rows, const std::string& what) {
  const View &w = in_rows.in[0], &x = in_rows.in[1];
  const std::uint32_t n = w.shape[0], k = w.shape[1];
  for (const KernelSet* set : kernel_sets()) {
    for (const Layout layout : {Layout::rows, Layout::tiled}) {
      KernelCall call = with_own_output(in_rows);
      if (layout == Layout::tiled) call.in[0] = laid(in_rows.in[0], layout, 4);
      ComputeFunction({std::string(set->name)}).execute(call);
      for (std::uint32_t b = 0; b < x.shape[0]; ++b) {
        const float* activations = x.as<float>() + std::size_t{b} * k;
        const Quantised rounded = quantise(activations, k, 32);
        for (std::uint32_t r = 0; r < n; ++r) {
          const float expected = expected_product(w.data() + r * row_bytes(w.format, k), rounded, activations, k);
          ASSERT_EQ(call.out[0].as<float>()[b * n + r], expected) << set->name << " " << to_string(layout) << " " << what << " row " << r;
        }
      }
    }
  }
}

TEST(Outliers, products_have_the_bits_of_the_contract_for_every_set_layout_and_batch) {
  Rng rng(41);
  for (const std::uint32_t k : {32u, 96u, 256u, 768u, 1056u}) {
    for (const std::uint32_t batch : {1u, 2u, 5u, 8u, 11u}) {
      const std::uint32_t n = kTileRows * (1 + static_cast<std::uint32_t>(rng.below(4)));
      expect_products(matmul_call(rng, Format::w4_outliers, Layout::rows, variant::kInt8, {n, k, batch}), std::to_string(k));
    }
  }
}

// The ends of every range: the largest values, first and last columns, activations of one size, and nothing beside the outliers.
TEST(Outliers, products_hold_at_the_ends_of_their_ranges) {
  constexpr std::uint32_t kColumns = 256;
  Rng rng(42);
  for (const int value : {127, -128}) {
    KernelCall call = matmul_call(rng, Format::w4_outliers, Layout::rows, variant::kInt8, {32, kColumns, 3});
    OutlierParts row{0x3c00, 0x7bff, {0, 128, 255}, std::vector<std::int8_t>(3, static_cast<std::int8_t>(value)), {}};
    for (std::uint32_t r = 0; r < 32; ++r) {
      row.codes.assign(kColumns, static_cast<std::uint8_t>(r % 16));
      for (const std::uint16_t k : row.positions) row.codes[k] = kNothing;
      write_outlier_row(row, call.in[0].data() + r * row_bytes(Format::w4_outliers, kColumns));
    }
    for (std::uint32_t i = 0; i < 3 * kColumns; ++i) call.in[1].as<float>()[i] = i / kColumns == 2 ? 0.0f : i % 2 == 0 ? 3.0f : -3.0f;
    expect_products(call, "value " + std::to_string(value));
  }
}

// Rows that a call names, in places, and slices that cut groups.
TEST(Outliers, chosen_rows_and_slices_have_the_bits_of_all_rows) {
  Rng rng(43);
  const KernelCall whole = matmul_call(rng, Format::w4_outliers, Layout::rows, variant::kInt8, {80, 192, 3});
  ComputeFunction({"portable"}).execute(whole);
  for (const KernelSet* set : kernel_sets()) {
    ComputeFunction function({std::string(set->name)});
    for (const Layout layout : {Layout::rows, Layout::tiled}) {
      KernelCall parts = with_own_output(whole);
      if (layout == Layout::tiled) parts.in[0] = laid(whole.in[0], layout, 4);
      for (const Slice slice : {Slice{0, 16}, Slice{16, 48}, Slice{64, 16}}) {
        parts.slice = slice;
        function.execute(parts);
      }
      EXPECT_EQ(bytes_of(parts.out[0]), bytes_of(whole.out[0])) << set->name << " " << to_string(layout);
    }
    KernelCall some = with_own_output(whole);
    some.rows = std::make_shared<const std::vector<std::uint32_t>>(std::vector<std::uint32_t>{1, 2, 3, 17, 40, 79});
    const KernelCall scattered = placed(rng, some);
    for (const KernelCall& call : {some, scattered}) {
      std::fill_n(call.out[0].as<float>(), 3 * 80, 0.0f);
      function.execute(call);
      for (std::uint32_t b = 0; b < 3; ++b) {
        for (const std::uint32_t r : *some.rows) EXPECT_EQ(call.out[0].as<float>()[b * 80 + r], whole.out[0].as<float>()[b * 80 + r]);
      }
    }
  }
}

// What int8 activations cost a product is what they cost its nibbles: outliers meet activations as they are.
TEST(Outliers, meet_activations_that_are_not_rounded) {
  constexpr std::uint32_t kColumns = 128;
  Rng rng(44);
  KernelCall call = matmul_call(rng, Format::w4_outliers, Layout::tiled, variant::kInt8, {16, kColumns, 1});
  OutlierParts row{0x3c00, 0x3c00, {5, 70}, {100, -50}, std::vector<std::uint8_t>(kColumns, kNothing)};
  std::vector<std::byte> rows(16 * row_bytes(Format::w4_outliers, kColumns));
  for (std::size_t r = 0; r < 16; ++r) write_outlier_row(row, &rows[r * rows.size() / 16]);
  pack_outlier_tile(kColumns, rows.data(), call.in[0].data());
  const float* x = call.in[1].as<float>();
  for (const KernelSet* set : kernel_sets()) {
    ComputeFunction({std::string(set->name)}).execute(call);
    EXPECT_EQ(call.out[0].as<float>()[7], std::fma(-50.0f, x[70], 100.0f * x[5])) << set->name;
  }
}

}  // namespace
}  // namespace vitro
