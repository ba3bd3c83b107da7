// The contract int8_rows: on the CPU what it says, on the worker the CPU's bits, by int8 tiles of the matrix unit.
#include <cmath>

#include "engine/host/hexagon_operands.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/group_formats.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;

// Every block of a row gets the scale of the `every`-th one before it.
KernelCall call_with_scales(Rng& rng, Format format, MatmulShape shape, std::uint32_t every) {
  KernelCall call = matmul_call(rng, format, Layout::rows, variant::kInt8Rows, shape);
  const std::size_t bytes = block_bytes(format), blocks = shape.k / block_elements(format);
  for (std::uint32_t n = 0; n < shape.n; ++n) {
    std::byte* row = call.in[0].data() + n * row_bytes(format, shape.k);
    for (std::size_t b = 0; b < blocks; ++b) std::memcpy(row + b * bytes, row + b / every * every * bytes, 2);
  }
  return call;
}

// The definition, with numbers in place of bytes: products of integers, and a step in float wherever the scale changes.
float expected(const KernelCall& call, std::uint32_t n, std::uint32_t b) {
  const Format format = call.in[0].format;
  const std::uint32_t k = call.in[0].shape[1], group = static_cast<std::uint32_t>(block_elements(format));
  const float* x = call.in[1].as<float>() + std::size_t{b} * k;
  const float most = std::abs(*std::max_element(x, x + k, [](float p, float q) { return std::abs(p) < std::abs(q); }));
  const std::byte* row = call.in[0].data() + n * row_bytes(format, k);
  std::vector<float> w(k);
  dequantise_row(format, row, w.data(), k);
  float acc = 0;
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < k; ++i) {
    const float scale = block_scale(format, row + i / group * block_bytes(format)).scale;
    const auto value = std::int64_t{std::lround(static_cast<double>(w[i]) / static_cast<double>(scale))};
    sum += value * static_cast<std::int64_t>(std::nearbyint(x[i] * (127 / most)));
    const bool last = i + 1 == k;
    if (!last && block_scale(format, row + (i + 1) / group * block_bytes(format)).scale == scale) continue;
    acc = std::fma(static_cast<float>(sum), scale * (most / 127), acc);
    sum = 0;
  }
  return acc;
}

constexpr Format kFormats[] = {Format::w(1, 32), Format::w(1, 128),      Format::w(2, 32), Format::w(2, 64),      Format::w(2, 128),
                               Format::w(3, 64), Format::w(4, 128, 'z'), Format::q4_0,     Format::w(1, 32, 'r'), Format::w(2, 128, 'r')};

TEST(Int8Rows, adds_integers_as_far_as_the_scale_stays_the_same) {
  Rng rng(1);
  ComputeFunction cpu({"portable"});
  for (const Format format : kFormats) {
    for (const std::uint32_t every : {1u, 2u, 1000u}) {
      const MatmulShape shape{19, 512, 3};
      const KernelCall call = call_with_scales(rng, format, shape, every);
      cpu.execute(call);
      for (std::uint32_t b = 0; b < shape.batch; ++b) {
        for (std::uint32_t n = 0; n < shape.n; ++n) {
          ASSERT_EQ(call.out[0].as<float>()[b * shape.n + n], expected(call, n, b)) << to_string(format) << " " << every << " " << n;
        }
      }
    }
  }
}

// Cut panels and strips, several batches of 32 rows, and a depth that the worker's scratch does not hold.
TEST(Int8Rows, tiles_of_int8_have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(2);
  const auto check = [&](Format format, MatmulShape shape) {
    expect_bits_of_the_cpu(worker, cpu, call_with_scales(rng, format, shape, 1u << 20), Kind::matmul_hmx_int8);
  };
  for (const Format format : kFormats) {
    if (format != Format::w(4, 128, 'z')) check(format, {40, 256, 3});
  }
  check(Format::w(2, 128), {176, 384, 35});
  check(Format::w(3, 32), {130, 96, 1});
  check(Format::w(4, 64), {16, 192, 64});
  check(Format::w(2, 128), {16, 16384 + 256, 33});
  check(Format::w(2, 32), {1500, 544, 2});  // several tiles of the layout, by rows and by columns
  check(Format::w(2, 32, 'r'), {1500, 544, 2});
}

TEST(Int8Rows, the_worker_wants_one_scale_for_a_row) {
  Rng rng(3);
  const auto refusal = [&](const KernelCall& call) { return hexagon::matmul_form(call, CodeMatmul::automatic).status().message; };
  const MatmulShape shape{16, 256, 2};
  EXPECT_EQ(refusal(call_with_scales(rng, Format::w(2, 128), shape, 1)),
            "its matrix unit computes int8 matmuls of w2g128 only if each row has one scale");
  EXPECT_NE(refusal(call_with_scales(rng, Format::w(2, 128, 'z'), shape, 1000)), "");  // a zero point for each block is no such form
  EXPECT_TRUE(hexagon::matmul_form(call_with_scales(rng, Format::w(2, 128), shape, 1000), CodeMatmul::automatic).ok());
}

}  // namespace
}  // namespace vitro::test
