// Matrix products by HVX code in qemu-hexagon give the bits of the int8 contract, whatever kernel computes them.
#include <cmath>

#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/kernel_set.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {
namespace {

using hexagon::Int8Block;
using hexagon::Kind;

std::vector<Int8Block> quantised(const View& x) {
  const std::uint32_t k = columns(x), blocks = k / kBlock;
  std::vector<Int8Block> out;
  std::vector<std::int8_t> quants(k);
  std::vector<float> scales(blocks);
  std::vector<std::int32_t> corrections(blocks);
  for (std::uint32_t m = 0; m < x.shape[0]; ++m) {
    kernel_set("portable").quantise(x.as<float>() + m * k, blocks, 1, quants.data(), scales.data(), corrections.data());
    for (std::uint32_t b = 0; b < blocks; ++b) {
      Int8Block block{{}, scales[b], corrections[b] / -8};
      std::copy_n(quants.begin() + b * kBlock, kBlock, block.quants);
      out.push_back(block);
    }
  }
  return out;
}

class Product : public testing::TestWithParam<std::tuple<Format, Layout, bool>> {};

TEST_P(Product, has_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  const auto [format, layout, planes] = GetParam();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(7);
  for (const MatmulShape shape : {MatmulShape{16, 32, 1}, {48, 256, 1}, {208, 96, 5}, {32, 1024, 4}, {1024, 288, 2}}) {
    KernelCall call = matmul_call(rng, format, layout, variant::kInt8, shape);
    cpu.execute(call);
    const Range all{0, shape.n};
    std::vector<std::byte> panels(planes ? hexagon::lut_panels_bytes(4, shape.n, shape.k)
                                         : hexagon::panels_bytes(format, shape.n, shape.k));
    if (planes) {
      hexagon::pack_lut_panels(call.in[0], all, panels.data());
    } else {
      hexagon::pack_panels(call.in[0], all, panels.data());
    }
    hexagon::Operator op = hexagon_op(planes                   ? Kind::matmul_lut
                                      : format == Format::q8_0 ? Kind::matmul_q8_0
                                                               : Kind::matmul_q4_0,
                                      shape.n, shape.k, shape.batch);
    op.bits = 4;
    op.zero = 8;
    worker.in(0, panels).in(1, quantised(call.in[1]));
    const auto y = worker.run<std::uint32_t>(op, std::size_t{shape.batch} * shape.n);
    EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0) << shape.n << " x " << shape.k << " x " << shape.batch;
  }
}

INSTANTIATE_TEST_SUITE_P(all, Product,
                         testing::Values(std::tuple{Format::q8_0, Layout::rows, false}, std::tuple{Format::q8_0, Layout::tiled, false},
                                         std::tuple{Format::q4_0, Layout::rows, false}, std::tuple{Format::q4_0, Layout::tiled, false},
                                         std::tuple{Format::q4_0, Layout::rows, true}, std::tuple{Format::q4_0, Layout::tiled, true}));

TEST(HexagonProduct, a_slice_of_rows_packs_alone) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(8);
  const KernelCall call = matmul_call(rng, Format::q4_0, Layout::tiled, variant::kInt8, {96, 64, 1});
  ComputeFunction({"portable"}).execute(call);
  std::vector<std::byte> panels(hexagon::panels_bytes(Format::q4_0, 32, 64));
  hexagon::pack_panels(call.in[0], {48, 32}, panels.data());
  worker.in(0, panels).in(1, quantised(call.in[1]));
  const auto y = worker.run<float>(hexagon_op(Kind::matmul_q4_0, 32, 64), 32);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], call.out[0].as<float>()[48 + i]) << i;
}

// T-MAN's formats: any number of planes, any zero point. Scales of one make the result the integer itself.
TEST(HexagonProduct, bit_planes_of_every_width_are_exact) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(9);
  constexpr std::uint32_t kRows = 160, kColumns = 128, kBlocks = kColumns / 32;
  for (unsigned bits = 1; bits <= 4; ++bits) {
    for (const std::uint32_t zero : {0u, 1u, (1u << bits) - 1}) {
      const auto q = draw_codes(rng, kRows * kColumns, bits);
      auto x = draw_activations(rng, kBlocks);
      std::vector<std::int8_t> flat;
      for (auto& block : x) {
        block.scale = 1;
        flat.insert(flat.end(), std::begin(block.quants), std::end(block.quants));
      }
      const auto expected = lut::dots(flat.data(), q.data(), kRows, kColumns, static_cast<std::int32_t>(zero), 32);
      std::vector<std::byte> panels(hexagon::lut_panels_bytes(bits, kRows, kColumns));
      const std::vector<std::uint16_t> ones(kRows * kBlocks, 0x3c00);
      hexagon::pack_lut_panels(bits, kRows, kColumns, q.data(), ones.data(), panels.data());
      hexagon::Operator op = hexagon_op(Kind::matmul_lut, kRows, kColumns);
      op.bits = bits;
      op.zero = zero;
      const auto y = worker.in(0, panels).in(1, x).run<float>(op, kRows);
      for (std::uint32_t r = 0; r < kRows; ++r) {
        std::int32_t sum = 0;
        for (std::uint32_t b = 0; b < kBlocks; ++b) sum += expected[r * kBlocks + b];
        ASSERT_EQ(y[r], static_cast<float>(sum)) << "bits " << bits << " zero " << zero << " row " << r;
      }
    }
  }
}

TEST(HexagonProduct, precompute_makes_the_reference_tables) {
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

TEST(HexagonProduct, a_worker_refuses_operators_that_reach_outside) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  hexagon::Operator op = hexagon_op(Kind::matmul_q8_0, 32, 64);
  op.in[0] = op.in[1] = 63 * MiB + 1023 * 1024;
  op.out_bytes = 128;
  for (int change = 0; change < 5; ++change) {
    hexagon::Operator bad = op;
    if (change == 1) bad.in[0] = hexagon::kArenaStart + 4;  // not aligned
    if (change == 2) bad.out_bytes = 124;
    if (change == 3) bad.columns = 48;
    if (change == 4) bad.kind = static_cast<Kind>(99);
    const auto result = worker.session().run({bad});
    ASSERT_FALSE(result.ok()) << change;
    EXPECT_EQ(result.status().code, Code::unsupported_shape) << change;
  }
  EXPECT_TRUE(worker.session().usable());  // a refusal is no failure
}

}  // namespace
}  // namespace vitro::test
