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

StagePlan priced(const Weights& weights, const Shape& s, double packets_per_weight, std::uint32_t bits = 16) {
  NpuBench bench(phone());
  const HexagonParameters parts = bench.parts();
  Kernel kernel;
  kernel.matrix = true;
  kernel.threads = 4;
  kernel.bits = bits;
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
    EXPECT_EQ(text(priced(kF16, s, 0.06)), text(run(hexagon::Kind::matmul_hmx_f16, Bytes{s.depth} * 2, s)))
        << s.columns << " x " << s.depth;
  }
}

}  // namespace
}  // namespace vitro::hw
