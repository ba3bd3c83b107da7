// w4_outliers on the worker's matrix unit: strips as the file has the weights, with the bits of the cores.
#include "engine/kernels/hexagon/outlier_strips.hpp"

#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/quant/outlier_rows.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;

// One scale per row and outliers in int8, as they are stored: last rows are missing, spans of outliers end within a strip, and some rows
// have all of theirs in one tile.
TEST(OutlierStrips, have_the_bits_of_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  ComputeFunction cpu({"portable"});
  Rng rng(21);
  for (const Layout layout : {Layout::rows, Layout::tiled}) {
    for (const MatmulShape shape : {MatmulShape{16, 32, 1}, {48, 96, 3}, {208, 1056, 34}, {64, 2304, 2}}) {
      KernelCall call = matmul_call(rng, Format::w4_outliers, layout, variant::kHmx, shape);
      expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_hmx);
    }
  }
  std::vector<float> row(1024);
  for (std::uint32_t c = 0; c < row.size(); ++c) row[c] = (c % 2 == 0 ? 1.0f : -1.0f) * static_cast<float>(c < 40 ? 100 + c : 1 + c % 7);
  KernelCall call = matmul_call(rng, Format::w4_outliers, Layout::rows, variant::kHmx, {64, 1024, 2});
  const Bytes bytes = row_bytes(Format::w4_outliers, 1024);
  for (std::uint32_t r = 0; r < 64; ++r) quantise_outlier_row(row.data(), call.in[0].data() + r * bytes, row.size());
  expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_hmx);
}

// A copy in strips has the stored bits, and little more.
TEST(OutlierStrips, are_as_large_as_the_format) {
  Rng rng(22);
  const KernelCall call = matmul_call(rng, Format::w4_outliers, Layout::rows, variant::kHmx, {64, 2048, 1});
  const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::automatic).value_or_throw();
  const Bytes strips = hexagon::weights_bytes(form, 64, 2048), stored = 64 * row_bytes(Format::w4_outliers, 2048);
  EXPECT_GE(strips, stored);
  EXPECT_LT(strips, stored + stored / 50);
}

// A scale that is no number has other bits in fp16, and a column that is not there has no place in a strip.
TEST(OutlierStrips, are_not_made_of_damaged_rows) {
  Rng rng(23);
  const Bytes row = row_bytes(Format::w4_outliers, 256);
  const OutlierRow at{256};
  const auto can_pack_with = [&](Bytes offset, std::uint16_t damage) {
    const KernelCall call = matmul_call(rng, Format::w4_outliers, Layout::rows, variant::kHmx, {64, 256, 1});
    EXPECT_TRUE(hexagon::can_pack_strips(call.in[0]));
    std::memcpy(call.in[0].data() + row + offset, &damage, sizeof damage);  // of row 1
    return hexagon::can_pack_strips(call.in[0]);
  };
  EXPECT_FALSE(can_pack_with(at.scale(), 0x7c00));
  EXPECT_FALSE(can_pack_with(at.outlier_scale(), 0x7c00));
  EXPECT_FALSE(can_pack_with(at.positions(), 256));
  EXPECT_FALSE(can_pack_with(at.positions(), 65535));
}

}  // namespace
}  // namespace vitro::test
