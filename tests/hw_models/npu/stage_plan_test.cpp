// The plan of stages that the simulated NPU prices is the one that the host gives to a worker.
#include "engine/base/stage_plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/host/hexagon_stages.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"
#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

using hexagon::StagePlan;

struct Shape {
  std::uint32_t rows, columns, depth;
};
const Shape kShapes[] = {{1, 4096, 4096},   {32, 4096, 4096},  {128, 4096, 4096},   {128, 14336, 4096}, {128, 4096, 14336},
                         {300, 1024, 4096}, {512, 8192, 2048}, {128, 151936, 1536}, {70, 896, 896},     {1024, 4096, 4096}};

// panels: of the bit-serial layout.
StagePlan priced(const Weights& weights, const Shape& s, double packets_per_weight, bool panels = false) {
  NpuBench bench(phone());
  const HexagonParameters parts = bench.parts();
  Kernel kernel;
  kernel.matrix = true;
  kernel.threads = 4;
  if (panels) {
    kernel.tile_rows = 1024;
    kernel.tile_columns = 256;
  }
  kernel.packets_per_weight = packets_per_weight;
  return TilePlanner(parts).plan(product(bench.model(), weights, s.rows, s.columns, s.depth), kernel).stages;
}

StagePlan run(hexagon::Kind kind, Bytes stored, const Shape& s) {
  hexagon::Operator op{};
  op.kind = kind;
  op.rows = s.columns;
  op.columns = s.depth;
  op.batch = s.rows;
  op.bits = 2;
  op.group = 64;
  op.tile = {1024, 256};
  op.zeros = hexagon::Zeros::of_blocks;
  return hexagon::plan_stages(op, stored, {});
}

std::string text(const StagePlan& p) {
  return fmt::format("{} x {} rows, {} x {} columns, {} x {} depth, {} buffers, {} threads, once {}", p.passes, p.rows, p.groups, p.columns,
                     p.depths, p.depth, p.buffers, p.threads, p.once);
}

TEST(StagePlan, that_is_priced_is_the_one_that_runs) {
  for (const Shape& s : kShapes) {
    EXPECT_EQ(text(priced(kQ4, s, 0.03)), text(run(hexagon::Kind::matmul_hmx, s.depth / 32 * 18, s))) << s.columns << " x " << s.depth;
    EXPECT_EQ(text(priced(kQ8, s, 0.05)), text(run(hexagon::Kind::matmul_hmx_q8, s.depth / 32 * 34, s))) << s.columns << " x " << s.depth;
    EXPECT_EQ(text(priced(kF16, s, 0.06)), text(run(hexagon::Kind::matmul_hmx_f16, Bytes{s.depth} * 2, s)))
        << s.columns << " x " << s.depth;
  }
}

// Groups are whole panels, so that prefill reads what decoding does.
TEST(StagePlan, that_is_priced_cuts_panels_as_the_worker_does) {
  const Weights planes{"w2g64", 9};
  for (const Shape& s : kShapes) {
    if (s.depth % 256 != 0 || s.rows > 512) continue;
    const StagePlan model = priced(planes, s, 0.05, true), worker = run(hexagon::Kind::matmul_hmx_lut, s.depth / 32 * 9, s);
    if (s.depth > 4096) {  // here the worker takes one buffer where the model takes parts of panels: neither takes another pass
      EXPECT_LE(model.passes, worker.passes);
      continue;
    }
    EXPECT_EQ(model.columns % hexagon::kLutPanelRows, 0u);
    EXPECT_EQ(model.columns, worker.columns) << s.rows << ", " << s.columns << " x " << s.depth;
    EXPECT_EQ(model.passes, worker.passes);
  }
}

}  // namespace
}  // namespace vitro::hw
