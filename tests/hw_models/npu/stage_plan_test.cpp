// The plan of stages that the simulated NPU prices is the one that the host gives to a worker.
#include "engine/base/stage_plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/host/hexagon_stages.hpp"
#include "engine/kernels/hexagon/lut_layout.hpp"
#include "engine/kernels/hexagon/panels.hpp"
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

// Of blocks in int8: parts of the depth, whose sums HVX scales.
TEST(StagePlan, that_is_priced_for_blocks_is_the_one_that_runs) {
  NpuBench bench(phone());
  const HexagonParameters parts = bench.parts();
  Kernel kernel;
  kernel.matrix = true;
  kernel.threads = 4;
  kernel.bits = 8;
  kernel.packets_per_weight = 0.01;
  kernel.packets_per_sum = 0.2;
  for (const auto& [weights, kind, bits] : {std::tuple{kQ4, hexagon::Kind::matmul_q4_0, 4u}, {kQ8, hexagon::Kind::matmul_q8_0, 8u}}) {
    for (const Shape& s : kShapes) {
      Work work = product(bench.model(), weights, s.rows, s.columns, s.depth);
      ASSERT_EQ(work.weight_bits, bits);
      Work unknown = work;
      unknown.weight_bits = 0;
      EXPECT_THROW(TilePlanner(parts).plan(unknown, kernel), RunError);
      const StagePlan plan = run(kind, s.depth / 32 * weights.block, s);
      EXPECT_EQ(text(TilePlanner(parts).plan(work, kernel).stages), text(plan)) << weights.format << ", " << s.columns << " x " << s.depth;
      EXPECT_EQ(plan.depth, std::min(s.depth, hexagon::kSummedDepth));
    }
  }
}

// Rows in places: pieces of strips stand in TCM beside the groups, which are bytes as the file has them.
TEST(StagePlan, that_is_priced_for_rows_in_places_is_the_one_that_runs) {
  NpuBench bench(phone());
  const HexagonParameters parts = bench.parts();
  for (const auto& [weights, in_int8, in_fp16] :
       {std::tuple{kQ4, hexagon::Kind::matmul_q4_0_rows, hexagon::Kind::matmul_hmx_rows},
        {kQ8, hexagon::Kind::matmul_q8_0_rows, hexagon::Kind::matmul_hmx_q8_rows}}) {
    for (const Shape& s : kShapes) {
      Kernel kernel;
      kernel.matrix = true;
      kernel.threads = 4;
      kernel.packets_per_weight = 0.01;
      kernel.packets_per_placed_weight = 0.05;
      Work work = product(bench.model(), weights, s.rows, s.columns, s.depth);
      const TilePlan dense = TilePlanner(parts).plan(work, kernel);
      work.in_places = true;
      const TilePlan rows = TilePlanner(parts).plan(work, kernel);
      const Bytes stored = s.depth / 32 * weights.block;
      const std::string what = fmt::format("{}, {} x {}", weights.format, s.columns, s.depth);
      EXPECT_EQ(text(rows.stages), text(run(in_fp16, stored, s))) << what;
      if (rows.stages == dense.stages) {
        const double added = 0.04 * rows.pass.full.in / work.weight_bytes * s.columns * s.depth / kernel.threads / parts.clock;
        EXPECT_NEAR(rows.pass.full.vector - dense.pass.full.vector, added, 1e-3 * added);
      }
      EXPECT_EQ(rows.pass.full.rows, rows.stages.columns);
      kernel.bits = 8;
      kernel.packets_per_sum = 0.2;
      const TilePlan blocks = TilePlanner(parts).plan(work, kernel);
      EXPECT_EQ(text(blocks.stages), text(run(in_int8, stored, s))) << what;
      EXPECT_EQ(blocks.pass.full.rows, blocks.stages.columns);
    }
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

// Look-ups: a tile of the layout for each thread, one part of the depth after the other.
TEST(StagePlan, that_is_priced_for_look_ups_is_the_one_that_runs) {
  NpuBench bench(phone());
  const HexagonParameters parts = bench.parts();
  const hexagon::TileShape searched = hexagon::tile_shape(2, 64);
  for (Shape s : kShapes) {
    s.rows = s.rows > 1 ? 4 : 1;
    Kernel kernel;
    kernel.threads = 4;
    kernel.packets_per_mac = 0.007;
    kernel.tile_rows = searched.rows;
    kernel.tile_columns = searched.columns;
    Work work = product(bench.model(), {"w2g64z", 9}, s.rows, s.columns, s.depth);
    work.group = 64;
    work.table_inputs = std::uint64_t{s.rows} * s.depth;
    work.table_bytes = 8 * work.table_inputs;
    hexagon::Operator op{};
    op.kind = hexagon::Kind::matmul_lut;
    op.rows = s.columns;
    op.columns = s.depth;
    op.batch = s.rows;
    op.bits = 2;
    op.group = 64;
    op.zeros = hexagon::Zeros::of_blocks;
    op.tile = hexagon::tile_shape(2, 64, s.columns);
    op.stages = hexagon::plan_stages(op, 0, {});
    EXPECT_EQ(text(TilePlanner(parts).plan(work, kernel).stages), text(op.stages)) << s.columns << " x " << s.depth;
    EXPECT_TRUE(hexagon::valid_lut(op)) << s.columns << " x " << s.depth;
  }
}

}  // namespace
}  // namespace vitro::hw
