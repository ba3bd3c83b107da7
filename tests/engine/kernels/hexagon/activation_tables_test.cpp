// Tables of activations, exact, rounded and wide: the worker makes those of the reference, and products by them have the bits of the CPU.
#include <cmath>

#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/group_formats.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::Zeros;

TEST(ActivationTables, precompute_makes_the_reference_tables) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(10);
  for (const std::uint32_t columns : {16u, 96u, 4096u}) {
    std::vector<std::int8_t> x(columns);
    for (auto& v : x) v = static_cast<std::int8_t>(static_cast<int>(rng.below(255)) - 127);
    const auto expected = lut::precompute(x.data(), columns);
    const auto tables = worker.in(0, x).run<std::int16_t>(hexagon_op(Kind::lut_precompute, columns), expected.size());
    for (std::size_t g = 0; g < columns / 4; ++g) {
      for (std::uint32_t e = 0; e < 16; ++e) {
        const std::size_t place = g / 4 * 64 + hexagon::table_place(static_cast<std::uint32_t>(g % 4), e);
        ASSERT_EQ(tables[place], expected[g * 16 + e]) << g << " " << e;
      }
    }
  }
}

// Tables of int8: what is rounded is rounded alike, so bits are those of the cores in this contract, too.
TEST(ActivationTables, rounded_tables_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(11);
  const auto check = [&](Format format, MatmulShape shape) {
    shape.k = static_cast<std::uint32_t>(round_up(shape.k, block_elements(format)));
    KernelCall call = matmul_call(rng, format, Layout::lut, variant::kInt8Tables, shape);
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_lut_rounded);
  };
  for (const Format format : all_formats()) {
    if (has_look_ups(format) || format == Format::q4_0) check(format, {48, 256, 2});
  }
  check(Format::w(2, 64, 'z'), {208, 1024, 5});
  check(Format::w(4, 128), {32, 4096, 9});  // more activations than the scratch holds tables of
  check(Format::q4_0, {16, 32, 1});
}

// The most that an entry, and a sum of 16 bits, can be: all activations and all codes at their ends.
TEST(ActivationTables, sums_of_rounded_tables_do_not_overflow) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  constexpr std::uint32_t kRows = 128, kColumns = 256;
  for (std::uint32_t bits = 1; bits <= 4; ++bits) {
    for (const std::uint32_t group : {32u, 64u, 128u}) {
      const hexagon::PlaneForm form{bits, group, 0, Zeros::of_blocks};
      const std::uint32_t blocks = kColumns / group, most = (1u << bits) - 1;
      std::vector<std::uint8_t> q(kRows * kColumns), zeros(kRows * blocks, 0);
      std::vector<std::int8_t> x(kColumns);
      for (std::uint32_t i = 0; i < kColumns; ++i) x[i] = i % 2 == 0 ? 127 : -127;
      for (std::uint32_t i = 0; i < q.size(); ++i) q[i] = static_cast<std::uint8_t>((i % 2 == 0) == (i / kColumns % 2 == 0) ? most : 0);
      const lut::RoundedTables tables = lut::precompute_rounded(x.data(), kColumns, group);
      const auto expected = lut::linear_rounded(tables, q.data(), kRows, kColumns, bits, group);
      EXPECT_EQ(static_cast<std::uint32_t>(std::abs(expected[0])), 127 * most * group / 4);
      // A unit of one and no rest leave the sums of blocks themselves, added up.
      const std::vector<hexagon::RoundedScale> scales(blocks, {1.0f, 0, (127 << 15) / 508, 1.0f});
      std::vector<std::byte> panels(hexagon::lut_panels_bytes(form, kRows, kColumns));
      const std::vector<std::uint16_t> ones(kRows * blocks, 0x3c00);
      hexagon::pack_lut_panels(form, kRows, kColumns, q.data(), ones.data(), zeros.data(), panels.data());
      hexagon::Operator op = hexagon_op(Kind::matmul_lut_rounded, kRows, kColumns);
      op.bits = bits;
      op.group = group;
      op.tile = form.tile;
      op.zeros = form.zeros;
      op.stages = hexagon::plan_stages(op, 0, {});
      const auto y = worker.in(0, panels).in(1, x).in(2, scales).run<float>(op, kRows);
      for (std::uint32_t r = 0; r < kRows; ++r) {
        std::int32_t sum = 0;
        for (std::uint32_t b = 0; b < blocks; ++b) sum += expected[r * blocks + b];
        ASSERT_EQ(y[r], static_cast<float>(sum)) << bits << " bits, group " << group << ", row " << r;
      }
    }
  }
}

// Activations of 14 bits, some of them all at their bound, so that entries fill 16 bits and sums 25.
TEST(ActivationTables, tables_of_int16_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(14);
  const auto check = [&](Format format, Layout layout, MatmulShape shape, bool at_bound = false) {
    shape.k = static_cast<std::uint32_t>(round_up(shape.k, block_elements(format)));
    KernelCall call = matmul_call(rng, format, layout, variant::kInt16Tables, shape);
    for (std::uint32_t i = 0; at_bound && i < shape.k * shape.batch; ++i) call.in[1].as<float>()[i] = i / shape.k % 2 == 0 ? 3.0f : -3.0f;
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_lut_wide);
  };
  for (const Format format : all_formats()) {
    if (has_look_ups(format) || format == Format::q4_0) check(format, Layout::rows, {48, 256, 2}, true);
    if (has_look_ups(format) || format == Format::q4_0) check(format, Layout::lut, {48, 256, 2});
  }
  check(Format::w(2, 64, 'z'), Layout::tiled, {208, 1024, 5});
  check(Format::w(4, 128, 'z'), Layout::lut, {32, 4096, 9}, true);  // more activations than the scratch holds tables of
  check(Format::w(2, 32), Layout::lut, {1200, 288, 2});
}

// The contract itself: quants within their bound, and an error per block of half a step of each activation.
TEST(ActivationTables, int16_tables_err_by_half_a_step_of_the_activations) {
  Rng rng(15);
  const KernelCall call = matmul_call(rng, Format::w(4, 64, 'z'), Layout::rows, variant::kInt16Tables, {32, 256, 3});
  ComputeFunction({"portable"}).execute(call);
  std::vector<float> w(256);
  for (std::uint32_t n = 0; n < 32; ++n) {
    dequantise_row(call.in[0].format, call.in[0].data() + n * row_bytes(call.in[0].format, 256), w.data(), 256);
    for (std::uint32_t b = 0; b < 3; ++b) {
      const float* x = call.in[1].as<float>() + b * 256;
      double exact = 0, bound = 0;
      for (std::uint32_t k = 0; k < 256; ++k) {
        float most = 0;
        for (std::uint32_t i = k / 64 * 64; i < k / 64 * 64 + 64; ++i) most = std::max(most, std::abs(x[i]));
        exact += double{w[k]} * double{x[k]};
        bound += std::abs(double{w[k]}) * (0.5 * most / variant::kMostWide * 1.001 + most * 0x1p-21);
      }
      EXPECT_NEAR(call.out[0].as<float>()[b * 32 + n], exact, bound) << n << " " << b;
    }
  }
}

}  // namespace
}  // namespace vitro::test
