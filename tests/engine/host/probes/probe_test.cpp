#include "engine/host/probes/probe.hpp"

#include <gtest/gtest.h>

#include "engine/host/host_machine.hpp"
#include "engine/host/probes/probe_calls.hpp"
#include "engine/host/probes/probe_interrupt.hpp"
#include "engine/host/probes/probe_memory.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/machine/budgeted_memory.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

CallShape product(std::uint32_t rows, std::uint32_t columns) {
  CallShape shape;
  shape.variant = variant::kInt8;
  shape.format = Format::q8_0;
  shape.layout = Layout::tiled;
  shape.rows = rows;
  shape.columns = columns;
  return shape;
}

std::unique_ptr<MachineHost> machine(Function& function, TraceSink& trace, std::uint32_t units) {
  HostOptions options;
  options.units = units;
  options.share_cores = true;
  return make_host_machine(options, function, trace);
}

TEST(ProbeCalls, units_share_the_rows_of_each_copy) {
  BudgetedMemory memory({GiB, 0, 0, 0}, true);
  const CallShape shape = product(64, 128);
  const std::vector<Chain> chains = make_chains(memory, shape, 3, 2);
  ASSERT_EQ(chains.size(), 2u);
  ASSERT_EQ(chains[1].size(), 3u);
  EXPECT_EQ(chains[1][0].slice, (Slice{32, 32}));
  EXPECT_EQ(chains[1][2].in[0].offset, 2 * operand_bytes(shape));
  EXPECT_EQ(chains[0][2].in[0].memory.id(), chains[1][0].in[0].memory.id());
}

TEST(ProbeCalls, rows_in_any_order_name_each_row_once) {
  BudgetedMemory memory({GiB, 0, 0, 0}, true);
  CallShape shape = product(64, 2048);
  shape.layout = Layout::rows;
  shape.scattered = true;
  std::vector<bool> seen(64);
  for (const Chain& chain : make_chains(memory, shape, 1, 2)) {
    for (const std::uint32_t place : *chain[0].row_offsets) seen[place * kRowOffsetUnit / (operand_bytes(shape) / 64)] = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(64, true));
}

TEST(ProbeCalls, shapes_that_no_kernel_has_are_refused) {
  BudgetedMemory memory({GiB, 0, 0, 0}, true);
  EXPECT_THROW(make_chains(memory, product(60, 128), 1, 1), ConfigError);
  EXPECT_THROW(make_chains(memory, product(64, 100), 1, 1), ConfigError);
  CallShape sample;
  sample.op = ops::Sample{};
  EXPECT_THROW(make_chains(memory, sample, 1, 1), ConfigError);
}

TEST(Probe, kernels_of_every_shape_run_and_are_counted) {
  ComputeFunction function;
  NullTrace trace;
  for (const Op& op :
       std::vector<Op>{ops::Matmul{}, ops::Accumulate{}, ops::Attention{}, ops::RmsNorm{}, ops::Glu{}, ops::Add{}, ops::Rope{}}) {
    KernelProbe probe;
    probe.shape = is<ops::Matmul>(op) ? product(64, 128) : CallShape{};
    probe.shape.op = op;
    if (is<ops::Accumulate>(op)) probe.shape.variant = variant::kFloat;
    if (!is<ops::Matmul>(op)) probe.shape.rows = is<ops::Accumulate>(op) ? 64 : 2;
    probe.shape.columns = 128;
    probe.shape.context = 20;
    probe.flush_rows = 32;
    probe.rounds = 2;
    probe.repetitions = 3;
    const KernelTimes times = probe_kernel(*machine(function, trace, 2), probe);
    EXPECT_EQ(times.seconds.size(), 3u) << to_string(op);
    EXPECT_GT(times.counts.macs + times.counts.elementwise, 0u) << to_string(op);
  }
}

TEST(Probe, hand_off_answers_once_for_each_round) {
  ComputeFunction function;
  NullTrace trace;
  DispatchProbe probe;
  probe.rounds = 7;
  EXPECT_EQ(probe_dispatch(*machine(function, trace, 2), probe).size(), 7u);
  probe.skip = 2;
  EXPECT_THROW(probe_dispatch(*machine(function, trace, 2), probe), ConfigError);
}

TEST(Probe, strides_and_threads_without_cores_are_refused) {
  EXPECT_THROW(probe_reads({MiB, 100, 1, 1}), ConfigError);
  EXPECT_THROW(probe_reads({MiB, 0, 0, 1}), ConfigError);
  EXPECT_EQ(probe_reads({MiB, 256, 1, 2}).size(), 2u);
  EXPECT_EQ(probe_load_latency(MiB, 2).size(), 2u);
}

TEST(Probe, interruptions_are_asked_for_while_the_first_unit_computes) {
  ComputeFunction function;
  NullTrace trace;
  InterruptProbe probe;
  probe.work = product(64, 128);
  probe.calls = 2000;
  probe.repetitions = 3;
  const InterruptTimes alone = probe_interrupts(*machine(function, trace, 1), probe);
  EXPECT_EQ(alone.alone.size(), 3u);
  EXPECT_EQ(alone.queued.size(), 3u);
  EXPECT_TRUE(alone.disturbed.empty());
  const InterruptTimes both = probe_interrupts(*machine(function, trace, 2), probe);
  EXPECT_EQ(both.answers.size(), 3u);
  double answers = 0;
  for (const double count : both.answers) answers += count;
  EXPECT_EQ(answers, static_cast<double>(both.trips.size()));
  probe.calls = 0;
  EXPECT_THROW(probe_interrupts(*machine(function, trace, 1), probe), ConfigError);
}

}  // namespace
}  // namespace vitro
