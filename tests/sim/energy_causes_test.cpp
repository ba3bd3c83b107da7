#include "sim/energy_causes.hpp"

#include <gmock/gmock.h>

#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pair;

KernelCall with_op(Op op, KernelCall call) {
  call.op = std::move(op);
  return call;
}

double sum_of(const EnergyCauses::Shares& shares) {
  double sum = 0;
  for (const auto& [name, joules] : shares) sum += joules;
  return sum;
}

TEST(EnergyCauses, what_puts_rows_elsewhere_is_communication_and_all_else_is_computing) {
  for (const Op& op :
       {Op(ops::Gather{}), Op(ops::ExpertSum{}), Op(ops::KvAppend{}), Op(ops::KvStage{}), Op(ops::Move{}), Op(ops::Copy{})}) {
    EXPECT_EQ(cause_of(with_op(op, {})), Cause::rows) << to_string(op);
  }
  for (const Op& op : {Op(ops::Matmul{}), Op(ops::Attention{}), Op(ops::Glu{}), Op(ops::RmsNorm{}), Op(ops::Route{}), Op(ops::Rope{})}) {
    EXPECT_EQ(cause_of(with_op(op, {})), Cause::compute) << to_string(op);
  }
}

TEST(EnergyCauses, memory_is_shared_out_by_the_bytes_that_calls_asked_for_and_all_sums_to_the_whole) {
  EnergyCauses causes;
  causes.drew(Cause::compute, 1 * kMs, 3);
  causes.drew(Cause::rows, 1 * kMs, 1);
  causes.drew(Cause::switches, 2 * kMs, 0.5);
  causes.moved(2 * kMs, 300, 100);
  causes.drew(Cause::compute, 5 * kMs, 100);  // after the window
  const PowerMeter::Joules parts{.base = 2, .units = 5, .dram = 4, .flash = 0.25};
  const EnergyCauses::Split split = causes.split(Picoseconds(0), 4 * kMs, parts);
  EXPECT_THAT(split.communication, ElementsAre(Pair("rows", 1), Pair("switches", 0.5), Pair("weights", 3), Pair("activations", 1),
                                               Pair("flash", 0.25)));
  EXPECT_THAT(split.causes, ElementsAre(Pair("compute", 3), Pair("communication", DoubleNear(sum_of(split.communication), 1e-12)),
                                        Pair("rest", DoubleNear(2.5, 1e-12))));
  EXPECT_NEAR(sum_of(split.causes), parts.sum(), 1e-12);
}

// A core of 1 GHz and one multiply-add per cycle, at 10 GB/s and 100 pJ/B: 2 W when it computes, and half a watt when it waits.
TEST(EnergyCauses, a_machine_says_what_its_calls_drew_and_moved) {
  Simulation simulation(round_options({"power.stalled_share={big: 0.25}"}));
  const KernelCall computes = test_call(1e6, 10e6), moves = with_op(ops::Gather{}, test_call(0, 20e6));
  simulation.run(run_chain(simulation.machine().units[0], {computes, moves}));
  ASSERT_EQ(simulation.now(), 3 * kMs);
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  const double compute = 2 * 1e-3, rows = 0.5 * 2e-3, dram = 30e6 * 100e-12;
  EXPECT_THAT(report.energy_causes_j,
              ElementsAre(Pair("compute", DoubleNear(compute, 1e-9)), Pair("communication", DoubleNear(rows + dram, 1e-9)),
                          Pair("rest", DoubleNear(1 * 3e-3, 1e-9))));
  EXPECT_NEAR(sum_of(report.communication_parts_j), rows + dram, 1e-9);
  EXPECT_NEAR(sum_of(report.energy_causes_j), *report.energy_j, 1e-12);
  // Windows of a run add up to the whole.
  const double first = *simulation.host().joules(Picoseconds(0), 1 * kMs), second = *simulation.host().joules(1 * kMs, 3 * kMs);
  EXPECT_NEAR(first, 1e-3 + compute + 10e6 * 100e-12, 1e-9);
  EXPECT_NEAR(first + second, *report.energy_j, 1e-9);
}

TEST(EnergyCauses, what_a_unit_leaks_is_no_calls) {
  Simulation simulation(round_options({"power.stalled_share={big: 0.25}", "power.idle_watts={kind: assumed, source: test, big: 0.5}"}));
  simulation.run(run_chain(simulation.machine().units[0], {test_call(1e6, 0)}));
  ASSERT_EQ(simulation.now(), 1 * kMs);
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  EXPECT_NEAR(report.energy_causes_j.front().second, 2e-3, 1e-9);
  EXPECT_NEAR(sum_of(report.energy_causes_j), *report.energy_j, 1e-12);
}

}  // namespace
}  // namespace vitro::sim
