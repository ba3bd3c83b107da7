// Products of int8 activations with blocks of q8_0 and q4_0, by tiles whose integer sums HVX scales: the cores' bits in every plan.
#include "engine/base/block_plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "engine/kernels/hexagon/block_layout.hpp"
#include "engine/ops/variants.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::StageEvent;
using hexagon::StageMark;

class BlockStages : public testing::Test {
 protected:
  void SetUp() override {
    VITRO_NEEDS_HEXAGON();
    worker_.emplace();
  }
  KernelCall call(Format format, MatmulShape shape) {
    KernelCall call = matmul_call(rng_, format, Layout::rows, variant::kInt8, shape);
    cpu_.execute(call);
    return call;
  }
  static hexagon::Operator planned(const KernelCall& call, const hexagon::StageOptions& options) {
    return operator_of(call, call.in[0].shape[0], hexagon::matmul_form(call, CodeMatmul::automatic).value_or_throw(), options);
  }
  std::vector<StageEvent> run(const KernelCall& call, const hexagon::Operator& op, const std::string& what) {
    const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::automatic).value_or_throw();
    EXPECT_TRUE(form.by_blocks()) << what;
    std::vector<std::byte> weights(hexagon::weights_bytes(form, op.rows, op.columns));
    hexagon::pack_weights(form, call.in[0], {0, op.rows}, weights.data());
    const auto y = run_packed(*worker_, call, op, form, weights);
    EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0) << what;
    return worker_->session().log();
  }
  Rng rng_{41};
  ComputeFunction cpu_{{"portable"}};
  std::optional<HexagonWorker> worker_;
};

const Format kBlockFormats[] = {Format::q8_0, Format::q4_0};
const MatmulShape kBlockShapes[] = {{200, 32, 1}, {136, 544, 34}, {72, 1568, 3}, {300, 1024, 2}};

TEST_F(BlockStages, have_the_bits_of_the_cpu_with_any_buffers_threads_and_groups) {
  std::uint32_t groups = 0, number = 0;
  for (const Format format : kBlockFormats) {
    for (const MatmulShape& shape : kBlockShapes) {
      const KernelCall product = call(format, shape);
      ++number;  // few: of six plans the three even ones, and with the next shape the odd ones
      for (const auto& [buffers, threads, group] :
           {std::tuple{0u, 1u, 1u}, {1u, 2u, 1u}, {2u, 4u, 1u}, {2u, 2u, 1u << 20}, {1u, 4u, 1u << 20}, {2u, 1u, 1u}}) {
        if (number++ % all_or_few(1, 2) != 0) continue;
        const hexagon::Operator op = planned(product, {buffers, threads, group});
        const std::string what =
            fmt::format("{} {} x {}, {} buffers, {} threads, {}", to_string(format), shape.n, shape.k, buffers, threads, group);
        EXPECT_TRUE(hexagon::valid_blocks(op)) << what;
        EXPECT_EQ(op.stages.once, group > 1 ? 1u : 0u) << what;
        EXPECT_EQ(op.stages.depths, (shape.k + 511) / 512) << what;
        run(product, op, what);
        groups = std::max(groups, op.stages.groups);
      }
    }
  }
  EXPECT_GT(groups, 2 * 4u);  // twice as many as there are buffers of results
}

// Less TCM: fewer rows at a time.
TEST_F(BlockStages, have_the_same_bits_in_passes) {
  for (const Format format : kBlockFormats) {
    const KernelCall product = call(format, {64, 1056, 100});
    for (const Bytes group : {Bytes{1}, 256 * KiB}) {
      const hexagon::Operator op = planned(product, {2, 4, group, 512 * KiB});
      EXPECT_GT(op.stages.passes, 1u);
      run(product, op, std::string(to_string(format)));
    }
  }
}

// A depth as large as the worker takes, and weights whose scales are no numbers in fp16's matrix unit: this contract takes them.
TEST_F(BlockStages, take_the_deepest_product_and_any_scale) {
  KernelCall product = call(Format::q8_0, {40, 32768, 33});
  run(product, planned(product, {}), "deep");
  product = call(Format::q8_0, {40, 1056, 33});
  const std::uint16_t infinite = 0x7c00;
  std::memcpy(product.in[0].data(), &infinite, sizeof infinite);
  cpu_.execute(product);
  run(product, planned(product, {}), "infinite");
}

// Every event: a stage begins when the plan's rule lets it. Each pass has as many steps more as stages may be ahead.
TEST_F(BlockStages, begin_when_the_rule_of_the_plan_lets_them) {
  const KernelCall product = call(Format::q4_0, {160, 1056, 40});
  for (const std::uint32_t buffers : {0u, 1u, 2u}) {
    const hexagon::Operator op = planned(product, {buffers, 4, 1});
    const std::uint32_t steps = hexagon::pass_steps(op);
    EXPECT_EQ(steps, 5 * 3 + hexagon::groups_ahead(buffers));
    const std::vector<StageEvent> log = run(product, op, fmt::format("{} buffers", buffers));
    hexagon::StageCounts counts;
    std::map<std::pair<int, std::uint32_t>, std::uint32_t> begun, ended;
    for (const StageEvent& e : log) {
      if (e.stage == hexagon::kActivations) continue;
      const std::pair key{int{e.stage}, e.step};
      const auto stage = static_cast<hexagon::Stage>(e.stage);
      const bool transfer = stage == hexagon::kIn || stage == hexagon::kOut;
      if (e.mark == static_cast<int>(transfer ? StageMark::issue : StageMark::begin) && begun[key]++ == 0) {
        EXPECT_TRUE(hexagon::may_start(stage, counts, steps, buffers, op.stages.once != 0)) << "stage " << stage << ", " << e.step;
        EXPECT_EQ(counts.started[stage]++, e.step);
      }
      if (e.mark == static_cast<int>(StageMark::end) && ++ended[key] == (stage == hexagon::kVector ? 4u : 1u)) ++counts.finished[stage];
    }
    for (const std::uint32_t finished : counts.finished) EXPECT_EQ(finished, steps);
    const hexagon::StageOverlap overlap = hexagon::overlap_of(op, 0, log);
    EXPECT_EQ(overlap.steps, steps);
    EXPECT_EQ(overlap.transfers_ahead, buffers == 2 ? steps - 1 : 0);
  }
}

TEST_F(BlockStages, plans_that_do_not_cover_the_product_are_refused) {
  const KernelCall product = call(Format::q4_0, {96, 1024, 40});
  const hexagon::Operator right = planned(product, {2, 4, 1});
  const auto refused = [&](const char* what, auto change) {
    hexagon::Operator op = right;
    change(op);
    EXPECT_THROW(run(product, op, what), RunError) << what;
  };
  refused("three buffers", [](hexagon::Operator& op) { op.stages.buffers = 3; });
  refused("a group too few", [](hexagon::Operator& op) { --op.stages.groups; });
  refused("half a strip", [](hexagon::Operator& op) { op.stages.columns = 48; op.stages.groups = 2; });
  refused("other parts of the depth", [](hexagon::Operator& op) { op.stages.depth = 256; op.stages.depths = 4; });
  refused("a pass too few", [](hexagon::Operator& op) { op.stages.rows = 32; });
  refused("tile groups", [](hexagon::Operator& op) { op.scales = hexagon::Scales::of_tile_groups; });
}

// The order of the depth in which strips of fp16's tiles are int8 tiles: within words, and its own inverse.
TEST(BlockLayout, orders_the_depth_as_strips_have_it) {
  for (std::uint32_t k = 0; k < hexagon::kTile; ++k) {
    EXPECT_EQ(hexagon::summed_depth(hexagon::summed_depth(k)), k);
    EXPECT_EQ(hexagon::summed_depth(k) / 4, k / 4);
  }
  EXPECT_EQ(hexagon::summed_depth(1), 2u);
  EXPECT_EQ(hexagon::summed_depth(3), 3u);
}

}  // namespace
}  // namespace vitro::test
