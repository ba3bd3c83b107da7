// Plans of stages as the host makes them, logs as it believes them, and workers that fail in the middle of a stage.
#include "engine/host/hexagon_stages.hpp"

#include <gmock/gmock.h>

#include "engine/kernels/hexagon/stage_layout.hpp"
#include "tests/engine/host/hexagon_faults.hpp"
#include "tests/engine/host/worker_ways.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/call_kit.hpp"
#include "tests/engine/kernels/hexagon/worker_product.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::StageEvent;
using testing::Contains;
using testing::HasSubstr;

hexagon::Operator staged_op(Kind kind, std::uint32_t rows, std::uint32_t columns, std::uint32_t batch) {
  hexagon::Operator op = hexagon_op(kind, rows, columns, batch);
  op.bits = 4;
  op.group = 32;
  op.tile = {1024, 256};
  if (kind == Kind::matmul_hmx_int8) op.scales = hexagon::Scales::of_rows;
  return op;
}

TEST(StagePlans, cover_every_product_and_fit_into_tcm) {
  Rng rng(3);
  for (const Kind kind : {Kind::matmul_hmx, Kind::matmul_hmx_q8, Kind::matmul_hmx_f16, Kind::matmul_hmx_lut, Kind::matmul_hmx_int8}) {
    for (int i = 0; i < 400; ++i) {
      const auto draw = [&](std::uint32_t most) { return 1 + static_cast<std::uint32_t>(rng.below(rng.below(2) == 0 ? 16 : most)); };
      hexagon::Operator op = staged_op(kind, draw(150000), 32 * draw(1024), draw(4096));
      const hexagon::StageOptions options{static_cast<std::uint32_t>(rng.below(3)), 1u << rng.below(3)};
      op.stages = hexagon::plan_stages(op, 0, options);
      EXPECT_TRUE(hexagon::valid_stages(op)) << static_cast<int>(kind) << ": " << op.rows << " x " << op.columns << " x " << op.batch;
      EXPECT_EQ(op.stages.threads, options.threads);
      EXPECT_LE(op.stages.buffers, options.buffers);
      EXPECT_EQ(op.stages.buffers == 0, options.buffers == 0);
    }
  }
}

// One buffer in place of two where weights would stream twice otherwise: made ready once for all rows of a prompt.
TEST(StagePlans, prefer_few_passes_over_the_weights) {
  hexagon::Operator op = staged_op(Kind::matmul_hmx_lut, 4096, 14336, 128);
  op.bits = 2;
  op.stages = hexagon::plan_stages(op, 0, {});
  EXPECT_EQ(op.stages.depths, 1u);
  EXPECT_EQ(op.stages.buffers, 1u);
  const std::uint32_t with_one = op.stages.passes;
  op = staged_op(Kind::matmul_hmx_lut, 4096, 4096, 128);
  op.stages = hexagon::plan_stages(op, 0, {});
  EXPECT_EQ(op.stages.passes, 1u);
  EXPECT_EQ(op.stages.buffers, 2u);
  EXPECT_EQ(with_one, 1u);
}

// A worker's log is what a process says that may have gone wild.
TEST(StageLog, with_an_event_that_can_not_be_is_refused) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(4);
  const KernelCall call = matmul_call(rng, Format::f16, Layout::rows, variant::kHmx, {96, 64, 2});
  const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::automatic).value_or_throw();
  std::vector<std::byte> weights(hexagon::weights_bytes(form, 96, 64));
  hexagon::pack_weights(form, call.in[0], {0, 96}, weights.data());
  const hexagon::Operator op = operator_of(call, 96, form, {2, 2, 1});
  run_packed(worker, call, op, form, weights);
  const std::vector<StageEvent> log = worker.session().log();
  const auto logged = static_cast<std::uint32_t>(log.size());
  EXPECT_TRUE(hexagon::check_log({&op, 1}, logged, log).ok());
  EXPECT_EQ(logged, 3 + 3 * 12u);  // three steps

  const auto refused = [&](const char* what, auto change) {
    for (std::size_t i = 0; i < log.size(); ++i) {
      std::vector<StageEvent> other = log;
      change(other[i]);
      const Status status = hexagon::check_log({&op, 1}, logged, other);
      EXPECT_EQ(status.code, Code::unit_lost) << what << ", event " << i;
      EXPECT_THAT(status.message, HasSubstr("log of stages was damaged")) << what;
    }
  };
  refused("a step that there is not", [](StageEvent& e) { e.step = 3; });
  refused("the last step that a word holds", [](StageEvent& e) { e.step = 0xffffffff; });
  refused("an operator that there is not", [](StageEvent& e) { e.op = 1; });
  refused("a stage that there is not", [](StageEvent& e) { e.stage = 5; });
  refused("a mark that there is not", [](StageEvent& e) { e.mark = 3; });
  refused("a thread that there is not", [](StageEvent& e) { e.thread = 200; });
  refused("a thread that has other work", [](StageEvent& e) { e.thread = e.thread == 5 ? 6 : 5; });
  for (const std::uint32_t count : {0u, logged - 1, logged + 1, 0xffffffffu}) {
    EXPECT_THAT(hexagon::check_log({&op, 1}, count, log).message, HasSubstr("(expected 39)"));
  }
  hexagon::Operator other = op;
  other.kind = Kind::copy;  // which has no stages
  EXPECT_FALSE(hexagon::check_log({&other, 1}, logged, log).ok());
}

TEST(StagePackets, are_those_of_the_threads_that_a_stage_has) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(5);
  const KernelCall call = matmul_call(rng, Format::f16, Layout::rows, variant::kHmx, {256, 256, 2});
  const hexagon::MatmulForm form = hexagon::matmul_form(call, CodeMatmul::automatic).value_or_throw();
  std::vector<std::byte> weights(hexagon::weights_bytes(form, 256, 256));
  hexagon::pack_weights(form, call.in[0], {0, 256}, weights.data());
  const auto packets = [&](std::string_view stage, std::string_view thread) -> std::uint64_t {
    for (const hexagon::StagePackets& of : hexagon::packets_by_stage(worker.session().transport().packets())) {
      if (of.stage == stage && of.thread == thread) return of.packets;
    }
    return 0;
  };
  if (worker.session().transport().packets().empty()) GTEST_SKIP() << "nothing counts packets";
  run_packed(worker, call, operator_of(call, 256, form, {2, 2}), form, weights);
  EXPECT_GT(packets("transfer", "dma"), 256 * 256 * 2 / 8u);  // a packet moves two words at most
  EXPECT_GT(packets("matrix", "matrix"), 0u);
  EXPECT_GT(packets("control", "control"), 0u);
  const std::uint64_t first = packets("vector", "hvx0"), second = packets("vector", "hvx1");
  const std::uint64_t least = 256 * 256 / 2 * 80 / 2048;  // half of the weights: five exchanges of sixteen pairs of vectors for 2048
  EXPECT_GT(first, least);
  EXPECT_GT(second, least);
  EXPECT_LT(std::max(first, second), 3 * least);
  EXPECT_EQ(packets("vector", "hvx2") + packets("other", "control"), 0u);
  run_packed(worker, call, operator_of(call, 256, form, {2, 4}), form, weights);
  EXPECT_GT(packets("vector", "hvx3"), least / 2);
}

class FaultInStage : public testing::TestWithParam<std::tuple<Way, Fault>> {};

TEST_P(FaultInStage, costs_a_restart_and_no_bit) {
  const auto [way, fault] = GetParam();
  VITRO_NEEDS_WAY(way);
  const std::map<std::uint32_t, Fault> none;
  auto transport = std::make_unique<FaultyTransport>(make_worker(way, 64 * MiB, 16 * MiB, !in_matrix({{1, fault}})), none);
  FaultyTransport& faulty = *transport;
  HexagonLimits limits;
  limits.progress = std::chrono::milliseconds(2000);
  HexagonWorker worker(std::move(transport), limits);
  ComputeFunction cpu({"portable"});
  Rng rng(6);
  const auto product = [&] {
    KernelCall call = matmul_call(rng, Format::f16, Layout::rows, variant::kHmx, {64, 16384, 2});  // two transfers of a MiB
    expect_bits_of_the_cpu(worker, cpu, call, Kind::matmul_hmx_f16);
  };
  int tries = 0;
  do {
    faulty.arm(fault);
    product();
  } while (faulty.finished_first && ++tries < 20);
  ASSERT_FALSE(faulty.finished_first) << "no fault came in time";
  EXPECT_EQ(faulty.starts, 2);
  EXPECT_TRUE(worker.session().usable());
  EXPECT_THAT(worker.session().notes(), Contains(HasSubstr("started again")));
  product();  // by the new worker
  EXPECT_EQ(faulty.starts, 2);
}

const std::vector<Fault> kAll = {Fault::die_in_transfer, Fault::hang_in_transfer, Fault::die_in_vector, Fault::hang_in_vector,
                                 Fault::die_in_matrix,   Fault::hang_in_matrix,   Fault::corrupt_log,   Fault::impossible_log};
const std::vector<Fault> kFew = {Fault::die_in_transfer, Fault::hang_in_vector, Fault::die_in_matrix, Fault::corrupt_log};
INSTANTIATE_TEST_SUITE_P(all, FaultInStage,
                         testing::Combine(testing::Values(Way::qemu, Way::fastrpc), testing::ValuesIn(all_or_few(kAll, kFew))));

}  // namespace
}  // namespace vitro::test
