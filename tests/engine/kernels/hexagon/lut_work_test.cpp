// Look-ups in stages on HVX threads, from the worker's own log: transfers ahead of them, tables made once, the cores' bits in every plan.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <map>
#include <optional>

#include "engine/kernels/hexagon/lut_layout.hpp"
#include "engine/ops/variants.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::StageEvent;
using hexagon::StageMark;

struct LutCase {
  Format format;
  MatmulShape shape;
  VariantId contract = variant::kInt8;
};
// Several groups with TCM as it is given below, several parts of the depth, ends of panels and of tiles.
const std::vector<LutCase>& lut_cases() {
  static const std::vector<LutCase> all{{Format::w(2, 64, 'z'), {1200, 576, 2}},
                                     {Format::w(4, 32), {1100, 288, 3}},
                                     {Format::w(1, 128, 'z'), {900, 640, 1}},
                                     {Format::w(2, 128, 'r'), {900, 640, 2}},
                                     {Format::w(3, 32, 'z'), {1030, 544, 1}, variant::kInt8Tables},
                                     {Format::w(2, 64), {900, 576, 2}, variant::kInt16Tables}};
  return all;
}

class LutWork : public testing::Test {
 protected:
  void SetUp() override {
    VITRO_NEEDS_HEXAGON();
    worker_.emplace();
  }
  KernelCall call(const LutCase& c) {
    KernelCall call = matmul_call(rng_, c.format, Layout::rows, c.contract, c.shape);
    cpu_.execute(call);
    return call;
  }
  static hexagon::MatmulForm form_of(const KernelCall& call) { return hexagon::matmul_form(call, CodeMatmul::look_up).value_or_throw(); }
  static hexagon::Operator planned(const KernelCall& call, const hexagon::StageOptions& options) {
    return operator_of(call, call.in[0].shape[0], form_of(call), options);
  }
  std::vector<StageEvent> run(const KernelCall& call, const hexagon::Operator& op, std::string_view what) {
    const hexagon::MatmulForm form = form_of(call);
    std::vector<std::byte> weights(hexagon::weights_bytes(form, op.rows, op.columns));
    hexagon::pack_weights(form, call.in[0], {0, op.rows}, weights.data());
    const auto y = run_packed(*worker_, call, op, form, weights);
    EXPECT_EQ(std::memcmp(y.data(), call.out[0].data(), y.size() * 4), 0) << what;
    return worker_->session().log();
  }
  Rng rng_{37};
  ComputeFunction cpu_{{"portable"}};
  std::optional<HexagonWorker> worker_;
};

// 0: results leave behind the last group; 1: by groups.
hexagon::StageOptions options(std::uint32_t buffers, std::uint32_t threads, Bytes group) { return {buffers, threads, group, 512 * KiB}; }

std::size_t place_of(const std::vector<StageEvent>& log, StageMark mark, int stage, std::uint32_t step, bool last = false) {
  std::size_t at = log.size();
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i].mark == static_cast<int>(mark) && log[i].stage == stage && log[i].step == step && (last || at == log.size())) at = i;
  }
  EXPECT_LT(at, log.size()) << "mark " << static_cast<int>(mark) << " of stage " << stage << ", step " << step;
  return at;
}

TEST_F(LutWork, have_the_bits_of_the_cpu_with_any_buffers_threads_and_places_of_sums) {
  std::uint32_t groups = 0;
  for (const LutCase& c : lut_cases()) {
    const KernelCall product = call(c);
    for (const auto& [buffers, threads, group, spill] :
         {std::tuple{0u, 1u, 1u, hexagon::Spill::tcm}, {1u, 2u, 1u, hexagon::Spill::l2}, {2u, 4u, 1u, hexagon::Spill::tcm},
          {2u, 2u, 1u << 18, hexagon::Spill::dram}, {2u, 1u, 1u << 18, hexagon::Spill::l2}}) {
      hexagon::Operator op = planned(product, options(buffers, threads, group));
      op.spill = spill;
      const std::string what = fmt::format("{}, {} buffers, {} threads, {}", to_string(c.format), buffers, threads, group);
      EXPECT_TRUE(hexagon::valid_lut(op)) << what;
      EXPECT_EQ(op.stages.once, group > 1 ? 1u : 0u) << what;
      run(product, op, what);
      groups = std::max(groups, op.stages.groups);
    }
  }
  EXPECT_GT(groups, 3u);  // more than there are buffers of results
}

// Each event stands where the plan's rule lets it, and the weights of a step are on their way before the one before it is looked up.
TEST_F(LutWork, with_two_buffers_transfers_are_ahead_and_with_one_they_are_not) {
  for (const std::size_t i : {0u, 3u}) {
    const KernelCall product = call(lut_cases()[i]);
    for (const std::uint32_t buffers : {1u, 2u}) {
      const hexagon::Operator op = planned(product, options(buffers, 4, 1));
      const std::vector<StageEvent> log = run(product, op, to_string(lut_cases()[i].format));
      const std::uint32_t steps = op.stages.steps();
      EXPECT_EQ(op.stages.depths, 3u);
      for (std::uint32_t k = 0; k + 1 < steps; ++k) {
        const std::size_t issued = place_of(log, StageMark::issue, hexagon::kIn, k + 1);
        if (buffers == 2) {
          EXPECT_LT(issued, place_of(log, StageMark::end, hexagon::kVector, k)) << k;
        } else {
          EXPECT_GT(issued, place_of(log, StageMark::end, hexagon::kVector, k, true)) << k;
        }
      }
      const hexagon::StageOverlap overlap = hexagon::overlap_of(op, 0, log);
      EXPECT_EQ(overlap.steps, steps);
      EXPECT_EQ(overlap.transfers_ahead, buffers == 2 ? steps - 1 : 0);
      EXPECT_EQ(overlap.vectors_with_matrix, 0u);
      // Tables come first: by all threads, behind the activations and before any look-up.
      std::size_t tables = 0;
      for (const StageEvent& e : log) tables += e.stage == hexagon::kActivations && e.thread >= static_cast<int>(hexagon::Thread::vector);
      EXPECT_EQ(tables, 2u * op.stages.threads);
      EXPECT_LT(place_of(log, StageMark::end, hexagon::kActivations, 0, true), place_of(log, StageMark::begin, hexagon::kVector, 0));
      hexagon::StageCounts counts;
      std::map<std::pair<int, std::uint32_t>, std::uint32_t> begun, ended;
      for (const StageEvent& e : log) {
        if (e.stage == hexagon::kActivations) continue;
        const std::pair key{int{e.stage}, e.step};
        const auto stage = static_cast<hexagon::Stage>(e.stage);
        if (e.mark == static_cast<int>(stage == hexagon::kVector ? StageMark::begin : StageMark::issue) && begun[key]++ == 0) {
          counts.finished[hexagon::kMatrix] = counts.finished[hexagon::kVector];  // has nothing to do
          EXPECT_TRUE(hexagon::may_start(stage, counts, steps, buffers, op.stages.once != 0)) << "stage " << stage << ", " << e.step;
          EXPECT_EQ(counts.started[stage]++, e.step);
        }
        if (e.mark == static_cast<int>(StageMark::end) && ++ended[key] == (stage == hexagon::kVector ? 4u : 1u)) ++counts.finished[stage];
      }
      EXPECT_EQ(counts.finished[hexagon::kOut], steps);
    }
  }
}

// Products of a request with one input make its tables once, unless another operator takes TCM in between (T-MAN 5).
TEST_F(LutWork, make_tables_once_for_products_that_share_them) {
  const KernelCall product = call(lut_cases()[0]);
  const hexagon::MatmulForm form = form_of(product);
  hexagon::Operator op = planned(product, {});
  std::vector<std::byte> weights(hexagon::weights_bytes(form, op.rows, op.columns));
  hexagon::pack_weights(form, product.in[0], {0, op.rows}, weights.data());
  const Input x = input_of(form, product.in[1]);
  HexagonSession& session = worker_->session();
  session.clear_scratch();
  const auto put = [&](const std::vector<std::byte>& bytes) {
    const std::uint32_t at = session.scratch(bytes.size()).value_or_throw();
    std::memcpy(session.at(at), bytes.data(), bytes.size());
    session.written(at, bytes.size());
    return at;
  };
  op.out_bytes = op.batch * op.rows * 4;
  op.in[0] = put(weights);
  op.in[1] = put(x.first);
  op.in[2] = put(x.second);
  hexagon::Operator other = op;
  other.in[1] = put(x.first);
  const auto answers = session.run({op, op, other, op}).value_or_throw();
  for (const auto& y : answers) EXPECT_EQ(std::memcmp(y.data(), product.out[0].data(), y.size() * 4), 0);
  std::array<std::uint32_t, 4> made{};
  for (const StageEvent& e : session.log()) made[e.op] += e.stage == hexagon::kActivations && e.thread >= 3;
  EXPECT_THAT(made, testing::ElementsAre(8u, 0u, 8u, 8u));
}

TEST_F(LutWork, plans_that_do_not_cover_the_product_are_refused) {
  const KernelCall product = call(lut_cases()[0]);
  const hexagon::Operator right = planned(product, options(2, 4, 1));
  const auto refused = [&](const char* what, auto change) {
    hexagon::Operator op = right;
    change(op.stages);
    EXPECT_THROW(run(product, op, what), RunError) << what;
  };
  refused("three buffers", [](hexagon::StagePlan& plan) { plan.buffers = 3; });
  refused("three threads", [](hexagon::StagePlan& plan) { plan.threads = 3; });
  refused("a group too few", [](hexagon::StagePlan& plan) { --plan.groups; });
  refused("parts of tiles", [](hexagon::StagePlan& plan) { plan.depth = 64; plan.depths = 9; });
  refused("half a panel", [](hexagon::StagePlan& plan) { plan.columns = 64; plan.groups = 19; });
  refused("a pass too few", [](hexagon::StagePlan& plan) { plan.rows = 1; });
}

}  // namespace
}  // namespace vitro::test
