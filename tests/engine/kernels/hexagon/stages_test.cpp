// Stages of the matrix unit's products, from the worker's own log: which transfer was under way when, and the same bits in every plan.
#include "engine/base/stage_plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "engine/ops/variants.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::StageEvent;
using hexagon::StageMark;
using hexagon::StagePlan;
using hexagon::Thread;
using Log = std::vector<StageEvent>;

// One product in stages, and what the worker said of it.
struct Staged {
  hexagon::Operator op;
  StagePlan plan;
  std::vector<std::uint32_t> y;
  Log log;

  // Place in the log of what happened to a step; for HVX, which has several threads, of the first or the last.
  std::size_t first(StageMark mark, int stage, std::uint32_t step) const {
    return find(log.begin(), log.end(), mark, stage, step) - log.begin();
  }
  std::size_t last(StageMark mark, int stage, std::uint32_t step) const {
    return log.size() - 1 - (find(log.rbegin(), log.rend(), mark, stage, step) - log.rbegin());
  }

 private:
  template <class It>
  static It find(It begin, It end, StageMark mark, int stage, std::uint32_t step) {
    const auto is = [&](const StageEvent& e) { return e.mark == static_cast<int>(mark) && e.stage == stage && e.step == step; };
    const It found = std::find_if(begin, end, is);
    EXPECT_NE(found, end) << "mark " << static_cast<int>(mark) << " of stage " << stage << ", step " << step;
    return found;
  }
};

hexagon::MatmulForm form_of(const KernelCall& call) { return hexagon::matmul_form(call, CodeMatmul::automatic).value_or_throw(); }

Staged run_planned(HexagonWorker& worker, const KernelCall& call, const hexagon::Operator& op) {
  const hexagon::MatmulForm form = form_of(call);
  std::vector<std::byte> weights(hexagon::weights_bytes(form, op.rows, op.columns));
  hexagon::pack_weights(form, call.in[0], {0, op.rows}, weights.data());
  const auto y = run_packed(worker, call, op, form, weights);
  return {op, op.stages, y, worker.session().log()};
}
Staged run_staged(HexagonWorker& worker, const KernelCall& call, const hexagon::StageOptions& options) {
  return run_planned(worker, call, operator_of(call, call.in[0].shape[0], form_of(call), options));
}
hexagon::StageOverlap overlap(const Staged& staged) { return hexagon::overlap_of(staged.op, 0, staged.log); }

// Narrow groups, so that a small product has many.
hexagon::StageOptions narrow(std::uint32_t buffers, std::uint32_t threads) { return {buffers, threads, 1}; }

class Stages : public testing::Test {
 protected:
  void SetUp() override { VITRO_NEEDS_HEXAGON(); }
  KernelCall call(Format format, MatmulShape shape, VariantId variant = variant::kHmx) {
    KernelCall call = matmul_call(rng_, format, Layout::rows, variant, shape);
    cpu_.execute(call);
    return call;
  }
  static void expect_bits(const KernelCall& call, const Staged& staged, std::string_view what) {
    EXPECT_EQ(std::memcmp(staged.y.data(), call.out[0].data(), staged.y.size() * 4), 0) << what;
  }
  Rng rng_{31};
  ComputeFunction cpu_{{"portable"}};
};

struct Case {
  Format format;
  MatmulShape shape;
  VariantId variant = variant::kHmx;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all{{Format::q4_0, {200, 288, 3}},
                                     {Format::q8_0, {136, 160, 34}},
                                     {Format::f16, {136, 96, 33}},
                                     {Format::w4_outliers, {200, 1312, 3}},
                                     {Format::w(2, 64, 'z'), {400, 576, 2}},
                                     {Format::w(4, 32), {300, 288, 3}},
                                     {Format::w(2, 128, 'r'), {400, 640, 5}, variant::kInt8Rows}};
  return all;
}

// Few: half of the combinations, each pair of format, buffers and threads among them.
TEST_F(Stages, have_the_bits_of_the_cpu_with_any_buffers_and_threads) {
  HexagonWorker worker;
  std::uint32_t number = 0;
  for (const Case& c : cases()) {
    const KernelCall product = call(c.format, c.shape, c.variant);
    for (const std::uint32_t buffers : {0u, 1u, 2u}) {
      for (const std::uint32_t threads : {1u, 2u, 4u}) {
        if (number++ % all_or_few(1, 2) != 0) continue;
        const Staged staged = run_staged(worker, product, narrow(buffers, threads));
        const std::string what = fmt::format("{}, {} buffers, {} threads", to_string(c.format), buffers, threads);
        expect_bits(product, staged, what);
        EXPECT_GT(staged.plan.groups, 2u) << what;
        EXPECT_EQ(staged.plan.buffers, buffers) << what;
      }
    }
  }
}

TEST_F(Stages, with_two_buffers_a_transfer_is_issued_before_the_step_before_it_is_made_ready) {
  HexagonWorker worker;
  std::uint32_t number = 0;
  for (const Case& c : cases()) {
    const KernelCall product = call(c.format, c.shape, c.variant);
    ++number;
    for (const std::uint32_t threads : {1u, 2u, 4u}) {
      if (number++ % all_or_few(1, 3) != 0) continue;  // few: one number of threads for each format
      const Staged two = run_staged(worker, product, narrow(2, threads)), one = run_staged(worker, product, narrow(1, threads));
      for (std::uint32_t k = 0; k + 1 < two.plan.steps(); ++k) {
        EXPECT_LT(two.first(StageMark::issue, hexagon::kIn, k + 1), two.first(StageMark::end, hexagon::kVector, k)) << k;
        EXPECT_GT(one.first(StageMark::issue, hexagon::kIn, k + 1), one.last(StageMark::end, hexagon::kVector, k)) << k;
      }
      const hexagon::StageOverlap all = overlap(two), none = overlap(one);
      EXPECT_EQ(all.transfers_ahead, two.plan.steps() - 1);
      EXPECT_EQ(none.transfers_ahead, 0u);
      EXPECT_EQ(all.steps, two.plan.steps());
    }
  }
}

// What follows from it for the matrix unit: with two buffers it may be busy while the next step is made ready, with none it never is. The
// worker multiplies in its own code here: the emulator's unit takes too little time to be busy for long.
TEST_F(Stages, hvx_makes_a_step_ready_while_the_matrix_unit_multiplies_the_one_before) {
  HexagonWorker worker(make_qemu_hexagon({.inbound = 64 * MiB, .outbound = 16 * MiB, .matrix_unit = false}));
  const KernelCall product = call(Format::f16, {1024, 64, 33});
  const Staged two = run_staged(worker, product, narrow(2, 2)), one = run_staged(worker, product, narrow(0, 2));
  EXPECT_EQ(two.plan.steps(), 32u);
  EXPECT_GT(overlap(two).vectors_with_matrix, 0u);
  EXPECT_EQ(overlap(one).vectors_with_matrix, 0u);
  for (std::uint32_t k = 0; k + 1 < one.plan.steps(); ++k) {  // a group leaves before the next one enters
    EXPECT_GT(one.first(StageMark::issue, hexagon::kIn, k + 1), one.last(StageMark::end, hexagon::kOut, k)) << k;
  }
}

// Every event, whatever threads made of it: a stage begins when the plan's rule lets it, and no earlier.
TEST_F(Stages, begin_when_the_rule_of_the_plan_lets_them) {
  HexagonWorker worker;
  const KernelCall product = call(Format::q4_0, {448, 96, 40});
  for (const std::uint32_t buffers : {0u, 1u, 2u}) {
    for (const Bytes group : {Bytes{1}, 128 * KiB}) {  // results by groups, or behind the last one
      hexagon::StageOptions options = narrow(buffers, 4);
      options.group = group;
      Staged staged = run_staged(worker, product, options);
      if (group > 1) {  // nearly a group of its own: narrower ones
        staged.op.stages.columns = 64;
        staged.op.stages.groups = 7;
        EXPECT_EQ(staged.op.stages.once, 1u);
        staged = run_planned(worker, product, staged.op);
      }
      expect_bits(product, staged, fmt::format("{} buffers, groups of {} bytes", buffers, group));
      const StagePlan& plan = staged.plan;
      hexagon::StageCounts counts;
      std::map<std::pair<int, std::uint32_t>, std::uint32_t> begun, ended;
      for (const StageEvent& e : staged.log) {
        if (e.stage == hexagon::kActivations) continue;
        const std::pair key{e.stage, e.step};
        const auto stage = static_cast<hexagon::Stage>(e.stage);
        const bool transfer = stage == hexagon::kIn || stage == hexagon::kOut;
        const bool starts = e.mark == static_cast<int>(transfer ? StageMark::issue : StageMark::begin) && begun[key]++ == 0;
        if (starts) {
          EXPECT_TRUE(hexagon::may_start(stage, counts, plan.steps(), plan.buffers, plan.once != 0)) << "stage " << stage << ", " << e.step;
          EXPECT_EQ(counts.started[stage]++, e.step);
        }
        if (e.mark != static_cast<int>(StageMark::end)) continue;
        if (++ended[key] == (stage == hexagon::kVector ? plan.threads : 1)) ++counts.finished[stage];
      }
      for (const std::uint32_t finished : counts.finished) EXPECT_EQ(finished, plan.steps());
    }
  }
}

// Less TCM than a product would like: fewer rows at a time, then parts of the depth, whose sums stay in the unit.
TEST_F(Stages, have_the_same_bits_in_passes_and_in_parts_of_the_depth) {
  HexagonWorker worker;
  const auto check = [&](const Case& c, Bytes tcm, bool passes, bool depths) {
    const KernelCall product = call(c.format, c.shape, c.variant);
    hexagon::StageOptions options;
    options.tcm = tcm;
    const Staged staged = run_staged(worker, product, options);
    EXPECT_EQ(staged.plan.passes > 1, passes) << to_string(c.format) << ", " << staged.plan.passes;
    EXPECT_EQ(staged.plan.depths > 1, depths) << to_string(c.format) << ", " << staged.plan.depths;
    expect_bits(product, staged, to_string(c.format));
  };
  check({Format::q4_0, {64, 544, 70}}, 160 * KiB, true, false);
  check({Format::q8_0, {64, 1056, 40}}, 150 * KiB, true, true);
  check({Format::f16, {64, 1120, 40}}, 200 * KiB, true, true);
  check({Format::q4_0, {40, 1120, 3}}, 150 * KiB, false, true);
  check({Format::w4_outliers, {40, 1312, 3}}, 160 * KiB, false, true);
  check({Format::w(2, 64, 'z'), {200, 1088, 3}}, 300 * KiB, false, true);
  check({Format::w(4, 32, 'r'), {160, 1056, 34}}, 384 * KiB, true, true);
  check({Format::w(2, 128, 'r'), {200, 1152, 3}, variant::kInt8Rows}, 180 * KiB, false, true);
}

// A depth as large as the worker takes still fits, in parts.
TEST_F(Stages, take_the_deepest_product) {
  HexagonWorker worker;
  const KernelCall product = call(Format::w(1, 128), {16, 32768, 2});
  const Staged staged = run_staged(worker, product, {});
  EXPECT_GT(staged.plan.depths, 1u);
  expect_bits(product, staged, "w1g128");
}

TEST_F(Stages, that_do_not_cover_the_product_or_do_not_fit_are_refused) {
  HexagonWorker worker;
  const KernelCall product = call(Format::q4_0, {96, 64, 40});
  const hexagon::Operator right = run_staged(worker, product, narrow(2, 2)).op;
  const auto refused = [&](const char* what, auto change) {
    hexagon::Operator op = right;
    change(op.stages);
    EXPECT_THROW(run_planned(worker, product, op), RunError) << what;
  };
  refused("three buffers", [](StagePlan& plan) { plan.buffers = 3; });
  refused("three threads", [](StagePlan& plan) { plan.threads = 3; });
  refused("no threads", [](StagePlan& plan) { plan.threads = 0; });
  refused("a group too many", [](StagePlan& plan) { ++plan.groups; });
  refused("a group too few", [](StagePlan& plan) { --plan.groups; });
  refused("no groups", [](StagePlan& plan) { plan.groups = 0; });
  refused("half a strip", [](StagePlan& plan) { plan.columns = 48; plan.groups = 2; });
  refused("a pass too few", [](StagePlan& plan) { plan.rows = 32; });
  refused("half a tile of rows", [](StagePlan& plan) { plan.rows = 20; plan.passes = 2; });
  refused("depth in odd parts", [](StagePlan& plan) { plan.depth = 32; plan.depths = 2; });
  refused("more depth than there is", [](StagePlan& plan) { plan.depth = 128; });
  refused("wider than the matrix", [](StagePlan& plan) { plan.columns = 1u << 31; plan.groups = 1; });
  refused("neither", [](StagePlan& plan) { plan.once = 2; });
}

}  // namespace
}  // namespace vitro::test
