// The matrix unit's model, and products on it by the worker: HVX makes the weights ready, the model multiplies.
#include "engine/kernels/hexagon/hmx.hpp"

#include <cmath>

#include "engine/host/hexagon_operands.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/tile_groups.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::HmxModel;
using hexagon::Kind;
using hexagon::kTile;
using hexagon::kTileElements;
using hexagon::tile_place;
using Halves = std::vector<std::uint16_t>;

double value(std::uint16_t half) { return static_cast<double>(half_to_float(half)); }

Halves draw_halves(Rng& rng, std::size_t n) {
  Halves out(n);
  for (auto& x : out) x = float_to_half(static_cast<float>(rng.normal()));
  return out;
}

TEST(Half, conversions_are_those_of_the_engine) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float x = hexagon::half_value(half);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(x), std::bit_cast<std::uint32_t>(half_to_float(half))) << bits;
  }
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(i < 1000 ? 0x33000000u - 500 + i : rng.below(1ull << 32)));
    ASSERT_EQ(hexagon::half_bits(x), float_to_half(x)) << std::bit_cast<std::uint32_t>(x);
  }
}

TEST(Hmx, a_tile_permutes_every_two_rows) {
  EXPECT_EQ(tile_place(0, 0), 0u);
  EXPECT_EQ(tile_place(1, 0), 1u);
  EXPECT_EQ(tile_place(0, 1), 2u);
  EXPECT_EQ(tile_place(2, 0), 64u);
  std::vector<bool> seen(kTileElements);
  for (std::uint32_t i = 0; i < kTileElements; ++i) seen[tile_place(i / kTile, i % kTile)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kTileElements);
  std::fill(seen.begin(), seen.end(), false);
  for (std::uint32_t i = 0; i < kTileElements; ++i) seen[hexagon::tile_place_int8(i / kTile, i % kTile)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kTileElements);
}

// Against double: n products, each sum rounded to float32, the scaled sum to fp16: gamma(n + 1) sum |terms| 2^-24, then 2^-11 and 2^-25.
TEST(Hmx, fp16_tiles_multiply_within_their_bound) {
  Rng rng(2);
  constexpr std::uint32_t kTiles = 3;
  const Halves x = draw_halves(rng, kTiles * kTileElements), w = draw_halves(rng, kTiles * kTileElements);
  std::vector<float> scale(kTile), bias(kTile);
  for (std::uint32_t c = 0; c < kTile; ++c) {
    scale[c] = static_cast<float>(rng.normal());
    bias[c] = static_cast<float>(rng.normal());
  }
  Halves out(kTileElements);
  HmxModel hmx;
  for (const std::uint32_t rows : {kTile, 5u}) {
    hmx.clear(rows);
    hmx.multiply(x.data(), w.data(), 2);
    hmx.multiply(x.data() + 2 * kTileElements, w.data() + 2 * kTileElements, 1);
    hmx.store(out.data(), {scale.data(), bias.data()});
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t c = 0; c < kTile; ++c) {
        double exact = 0, magnitude = 0;
        for (std::uint32_t k = 0; k < kTiles * kTile; ++k) {
          const std::uint32_t tile = k / kTile * kTileElements;
          const double term = value(x[tile + tile_place(r, k % kTile)]) * value(w[tile + tile_place(k % kTile, c)]);
          exact += term;
          magnitude += std::abs(term);
        }
        const double n = kTiles * kTile + 1, gamma = n * 0x1p-24 / (1 - n * 0x1p-24), scaled = exact * scale[c] + bias[c];
        const double before = gamma * (magnitude * std::abs(scale[c]) + std::abs(bias[c]));
        ASSERT_NEAR(value(out[tile_place(r, c)]), scaled, before + (std::abs(scaled) + before) * 0x1p-11 + 0x1p-25) << r << " " << c;
      }
    }
  }
}

TEST(Hmx, int8_tiles_are_exact_until_they_are_stored) {
  Rng rng(3);
  std::vector<std::int8_t> x(2 * kTileElements), w(2 * kTileElements);
  for (auto& v : x) v = static_cast<std::int8_t>(static_cast<int>(rng.below(256)) - 128);
  for (auto& v : w) v = static_cast<std::int8_t>(static_cast<int>(rng.below(3)) - 1);  // ternary, as BitNet's
  const std::vector<float> scale(kTile, 0.25f), bias(kTile, 3.0f);
  Halves out(kTileElements);
  HmxModel hmx;
  hmx.clear();
  hmx.multiply(x.data(), w.data(), 2);
  hmx.store_int8(out.data(), {scale.data(), bias.data()});
  for (std::uint32_t r = 0; r < kTile; ++r) {
    for (std::uint32_t c = 0; c < kTile; ++c) {
      int sum = 0;
      for (std::uint32_t k = 0; k < 2 * kTile; ++k) {
        const std::uint32_t tile = k / kTile * kTileElements;
        sum += x[tile + hexagon::tile_place_int8(r, k % kTile)] * w[tile + hexagon::tile_place_int8(k % kTile, c)];
      }
      ASSERT_EQ(out[tile_place(r, c)], float_to_half(static_cast<float>(sum) * 0.25f + 3.0f)) << r << " " << c;
    }
  }
}

// The emulator's unit and the worker's own code are one class, compiled for two processors.
TEST(HexagonHmx, the_emulators_unit_has_the_bits_of_the_workers_code_in_few_packets) {
  VITRO_NEEDS_HEXAGON();
  std::uint64_t packets[2] = {};
  for (const bool unit : {false, true}) {
    HexagonWorker worker(make_qemu_hexagon({.inbound = 64 * MiB, .outbound = 16 * MiB, .matrix_unit = unit}));
    ComputeFunction cpu({"portable"});
    Rng rng(8);
    const auto check = [&](Kind kind, Format format, MatmulShape shape, VariantId contract) {
      KernelCall call = matmul_call(rng, format, Layout::rows, contract, shape);
      expect_bits_of_the_cpu(worker, cpu, call, kind);
    };
    check(Kind::matmul_hmx_f16, Format::f16, {64, 1056, 33}, variant::kHmx);  // more tiles than a load has, sums of several loads
    check(Kind::matmul_q8_0, Format::q8_0, {64, 96, 33}, variant::kInt8);
    check(Kind::matmul_hmx_int8, Format::w(2, 128, 'r'), {128, 256, 3}, variant::kInt8Rows);
    for (const auto& of : hexagon::packets_by_stage(worker.session().transport().packets())) {
      if (of.stage == "matrix") packets[unit] = of.packets;
    }
  }
  EXPECT_GT(packets[true], 0u);
  EXPECT_LT(packets[true] * 10, packets[false]);
}

// One operator of the worker: HVX look-ups, products with scales, tiles, the model. The CPU's code of the contract shares nothing with it.
TEST(HexagonHmx, a_product_has_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(4);
  const auto check = [&](Kind kind, Format format, Layout layout, MatmulShape shape) {
    KernelCall call = matmul_call(rng, format, layout, variant::kHmx, shape);
    expect_bits_of_the_cpu(worker, cpu, call, kind);
  };
  for (const MatmulShape shape : {MatmulShape{16, 32, 1}, {48, 256, 3}, {96, 96, 33}, {32, 1056, 2}}) {
    check(Kind::matmul_hmx, Format::q4_0, Layout::rows, shape);
    check(Kind::matmul_hmx_q8, Format::q8_0, Layout::rows, shape);
    check(Kind::matmul_hmx_f16, Format::f16, Layout::rows, shape);
  }
  // What has no tiles of its own is rounded to fp16 when it is packed.
  for (const Format format : {Format::f32, Format::q6_k, Format::iq4_nl}) {
    check(Kind::matmul_hmx_f16, format, Layout::rows, {40, 256, 2});
  }
  check(Kind::matmul_hmx_q8, Format::q8_0, Layout::tiled, {48, 96, 2});
}

// Prompts of a model whose weights lie for look-ups: the same panels, made into tiles in two levels (T-MAN 4.1). The shapes cut panels and
// strips, fill several batches of 32 rows, and are deeper than the worker's scratch.
TEST(HexagonHmx, bit_serial_panels_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(8);
  const auto check = [&](Format format, Layout layout, MatmulShape shape) {
    KernelCall call = matmul_call(rng, format, layout, variant::kHmx, shape);
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_hmx_lut);
  };
  for (const Format format :
       {Format::w(1, 32), Format::w(1, 64, 'z'), Format::w(2, 64), Format::w(2, 64, 'z'), Format::w(3, 128), Format::w(3, 32, 'z'),
        Format::w(4, 128, 'z'), Format::w(4, 64), Format::w(1, 64, 'r'), Format::w(2, 128, 'r'), Format::w(4, 32, 'r')}) {
    check(format, Layout::rows, {40, 256, 3});
  }
  check(Format::w(2, 64, 'z'), Layout::lut, {176, 192, 35});
  check(Format::w(4, 32), Layout::tiled, {48, 96, 2});
  check(Format::w(1, 128), Layout::lut, {16, 8192 + 256, 33});
  check(Format::w(2, 32), Layout::lut, {1200, 288, 2});  // several tiles of rows and of columns
  check(Format::w(2, 32, 'r'), Layout::lut, {1600, 288, 2});
}

// The same panels with scales and zero points in the tables (T-MAN 4.1), weights as the first operand. Shapes cut panels, units of 64
// columns and strips of activations, and are deeper than what fits at once.
TEST(HexagonHmx, tables_with_scales_in_them_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(9);
  const auto check = [&](Format format, Layout layout, MatmulShape shape) {
    KernelCall call = matmul_call(rng, format, layout, variant::kHmx, shape);
    call.method = Method::scaled_tables;
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_hmx_scaled);
  };
  for (const std::uint32_t bits : {1, 2, 3, 4}) {
    for (const std::string_view form : {"", "z", "r"}) {
      for (const std::uint32_t group : {32, 64, 128}) check(Format::w(bits, group, form), Layout::rows, {40, 256, 3});
    }
  }
  check(Format::w(2, 64, 'z'), Layout::lut, {176, 192, 35});
  check(Format::w(4, 32, 'z'), Layout::tiled, {48, 96, 2});
  check(Format::w(3, 32, 'r'), Layout::rows, {48, 96, 2});
  check(Format::w(1, 128), Layout::lut, {16, 8192 + 256, 33});
  check(Format::w(2, 32), Layout::lut, {1200, 288, 2});
}

TEST(HexagonHmx, the_contract_is_the_product_within_its_bound) {
  Rng rng(5);
  const MatmulShape shape{32, 512, 3};
  for (const Format format : {Format::q4_0, Format::q8_0, Format::f16, Format::w(2, 64, 'z')}) {
    const KernelCall call = matmul_call(rng, format, Layout::rows, variant::kHmx, shape);
    ComputeFunction({"portable"}).execute(call);
    std::vector<float> w(shape.k);
    for (std::uint32_t n = 0; n < shape.n; ++n) {
      dequantise_row(format, call.in[0].data() + n * row_bytes(format, shape.k), w.data(), shape.k);
      for (std::uint32_t b = 0; b < shape.batch; ++b) {
        double exact = 0, magnitude = 0;
        for (std::uint32_t k = 0; k < shape.k; ++k) {
          const double term = double{w[k]} * double{call.in[1].as<float>()[b * shape.k + k]};
          exact += term;
          magnitude += std::abs(term);
        }
        // Both factors are rounded to fp16 (2^-11 each, 2^-10.9 together), the sums to float32, the result to fp16.
        const double before = magnitude * (0x1p-10 * 1.01 + shape.k * 0x1p-24) + shape.k * 0x1p-24;
        ASSERT_NEAR(call.out[0].as<float>()[b * shape.n + n], exact, before + std::abs(exact) * 0x1p-11 + 0x1p-25) << n << " " << b;
      }
    }
  }
}

// Every product of HVX integers that stands in for qfloat: subnormal, huge, negative and zero operands among them.
TEST(HexagonHmx, tile_groups_get_their_scales_to_the_bit) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(6);
  constexpr std::uint32_t kWeights = 16384;
  const float odd[16] = {0, 1, -1, 1.5, 3.140625f, 0x1p-24f, 0x1.8p-23f, -0x1p-14f, 0x1.ffcp-15f, 65504, 1024, 7, -8, 0.1f, 2047, 0x1p-20f};
  for (const Halves& table : {lut::code_table(lut::kQ4Values), lut::code_table(odd)}) {
    const auto codes = draw_codes(rng, kWeights, 4);
    std::vector<std::byte> packed(kWeights / 2);
    for (std::uint32_t i = 0; i < kWeights; i += 256) pack_super_group(&codes[i], &packed[i / 2]);
    Halves scales(kWeights / 32), placed(kWeights / 32), vector(64);
    for (std::uint32_t g = 0; g < scales.size(); ++g) {
      scales[g] = static_cast<std::uint16_t>(rng.below(0x7c00) | (rng.below(2) << 15));
      if (g % 8 == 0) scales[g] &= 0x83ff;  // subnormal or zero
      placed[g / 64 * 64 + super_group_scale(g % 64)] = scales[g];
    }
    for (std::uint32_t e = 0; e < 16; ++e) vector[hexagon::table_place(0, e)] = table[e];
    const auto out =
        worker.in(0, packed).in(1, placed).in(2, vector).run<std::uint16_t>(hexagon_op(Kind::dequantise_tiles, kWeights), kWeights);
    for (std::uint32_t i = 0; i < kWeights; ++i) {
      const float exact = half_to_float(table[codes[i]]) * half_to_float(scales[i / 32]);
      ASSERT_EQ(out[i], float_to_half(exact)) << i << ": " << table[codes[i]] << " * " << scales[i / 32];
    }
  }
}

// What a file has is what the worker computes with: the bytes of strips go to the session as they are, and results are those of the cores.
TEST(HexagonHmx, tile_groups_are_computed_as_they_are_stored) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(7);
  for (const MatmulShape shape : {MatmulShape{64, 64, 3}, {96, 192, 1}}) {
    KernelCall call = matmul_call(rng, Format::q4_0_tile, Layout::strips, variant::kHmx, shape);
    const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::automatic).value_or_throw();
    ASSERT_EQ(form.planes.scales, hexagon::Scales::of_tile_groups);
    std::vector<std::byte> strips(hexagon::weights_bytes(form, shape.n, shape.k));
    ASSERT_EQ(strips.size(), view_bytes(call.in[0]));
    hexagon::pack_weights(form, call.in[0], {0, shape.n}, strips.data());
    EXPECT_EQ(std::memcmp(strips.data(), call.in[0].data(), strips.size()), 0);
    std::vector<std::byte> last(hexagon::weights_bytes(form, kTile, shape.k));
    hexagon::pack_weights(form, call.in[0], {shape.n - kTile, kTile}, last.data());
    EXPECT_EQ(std::memcmp(last.data(), strips.data() + strips.size() - last.size(), last.size()), 0);
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_hmx);
  }
}

}  // namespace
}  // namespace vitro::test
