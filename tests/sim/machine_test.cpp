#include "sim/machine.hpp"

#include <gmock/gmock.h>

#include "tests/sim/simulation.hpp"
#include "tests/sim/span_trace.hpp"

namespace vitro::sim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

template <class... Rest>
std::vector<Task<void>> tasks(Task<void> first, Rest... rest) {
  std::vector<Task<void>> all;
  all.push_back(std::move(first));
  (all.push_back(std::move(rest)), ...);
  return all;
}

TEST(SimMachine, a_call_takes_the_longer_of_arithmetic_and_memory) {
  Simulation compute(round_options());
  compute.run(run_chain(compute.machine().units[0], {test_call(50'000, 1000)}));
  EXPECT_EQ(compute.now(), 50 * kUs);

  Simulation memory(round_options());
  memory.run(run_chain(memory.machine().units[0], {test_call(1000, 100'000)}));
  EXPECT_EQ(memory.now(), 10 * kUs);
}

TEST(SimMachine, a_chain_pays_for_the_hand_off_once_and_for_each_call) {
  Simulation simulation(round_options({"core.wake_up=5 us", "core.hand_back=1 us", "core.call_overhead=500 ns"}));
  simulation.run(run_chain(simulation.machine().units[0], {test_call(2000, 0), test_call(3000, 0)}));
  EXPECT_EQ(simulation.now(), 5 * kUs + (2 * kUs + 500 * kNs) + (3 * kUs + 500 * kNs) + 1 * kUs);
}

TEST(SimMachine, a_busy_unit_needs_no_wake_up_for_what_is_queued) {
  Simulation simulation(round_options({"core.wake_up=5 us"}));
  ComputeUnit* unit = simulation.machine().units[0];
  simulation.run(
      together(&simulation.machine(), tasks(run_chain(unit, {test_call(2000, 0, 1)}), run_chain(unit, {test_call(3000, 0, 2)}))));
  EXPECT_EQ(simulation.now(), 10 * kUs);
  EXPECT_THAT(simulation.function.tags, ElementsAre(1, 2));
}

// Two streams of 80 KB share 16 GB/s: 8 GB/s each while both run.
TEST(SimMachine, two_cores_share_the_bandwidth_of_their_port) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  simulation.run(
      together(&machine, tasks(run_chain(machine.units[0], {test_call(0, 80'000)}), run_chain(machine.units[1], {test_call(0, 80'000)}))));
  EXPECT_EQ(simulation.now(), 10 * kUs);
}

// Core 0: 40 KB, then 10 us of arithmetic. Core 1: 80 KB, of which 40 KB at 8 GB/s in 5 us and 40 KB at 10 GB/s in 4 us,
// then 2 us of arithmetic.
TEST(SimMachine, chains_on_two_cores_take_the_time_computed_by_hand) {
  Simulation simulation(round_options({"cpu.calls=each"}));
  Machine& machine = simulation.machine();
  std::vector<Picoseconds> ends;
  simulation.function.effect = [&](const KernelCall&) { ends.push_back(machine.clock.now()); };
  simulation.run(together(&machine, tasks(run_chain(machine.units[0], {test_call(0, 40'000, 1), test_call(10'000, 0, 2)}),
                                          run_chain(machine.units[1], {test_call(0, 80'000, 3), test_call(2000, 0, 4)}))));
  EXPECT_THAT(simulation.function.tags, ElementsAre(1, 3, 4, 2));
  EXPECT_THAT(ends, ElementsAre(5 * kUs, 9 * kUs, 11 * kUs, 15 * kUs));
}

Task<void> charge_then_run(Machine* machine, std::vector<Picoseconds>* log) {
  machine->clock.charge(PolicyWork::cache_lookup, 20);  // 2000 cycles
  log->push_back(machine->clock.now());
  Chain chain{test_call(3000, 0)};
  co_await run_chain(machine->units[1], std::move(chain));
  log->push_back(machine->clock.now());
}

TEST(SimMachine, what_the_policy_is_charged_delays_what_it_submits) {
  Simulation simulation(round_options());
  std::vector<Picoseconds> log;
  simulation.run(charge_then_run(&simulation.machine(), &log));
  EXPECT_THAT(log, ElementsAre(2 * kUs, 5 * kUs));
}

Task<void> charge_at(Machine* machine, Picoseconds when, PolicyWork work, std::uint32_t n) {
  co_await sleep_until(machine->executor, when);
  machine->clock.charge(work, n);
}

TEST(SimMachine, policy_work_takes_its_core_from_the_kernel_there) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  std::vector<Picoseconds> ends;
  simulation.function.effect = [&](const KernelCall&) { ends.push_back(machine.clock.now()); };
  simulation.run(
      together(&machine, tasks(run_chain(machine.units[0], {test_call(10'000, 0)}), run_chain(machine.units[1], {test_call(10'500, 0)}),
                               charge_at(&machine, 4 * kUs, PolicyWork::submit, 3))));
  EXPECT_THAT(ends, ElementsAre(10'500 * kNs, 13 * kUs));
}

Task<void> fails(Machine* machine, std::string* what) {
  try {
    Chain chain{test_call(1000, 0, 7), test_call(1000, 0, 8)};
    co_await run_chain(machine->units[0], std::move(chain));
  } catch (const RunError& error) {
    *what = error.what();
  }
}

TEST(SimMachine, a_kernel_that_throws_fails_its_awaiter_and_nobody_else) {
  Simulation simulation(round_options());
  simulation.function.effect = [](const KernelCall& call) {
    if (call.slice.first == 7) throw RunError("the kernel broke");
  };
  std::string what;
  Machine& machine = simulation.machine();
  simulation.run(together(&machine, tasks(fails(&machine, &what), run_chain(machine.units[0], {test_call(1000, 0, 9)}))));
  EXPECT_EQ(what, "the kernel broke");
  EXPECT_THAT(simulation.function.tags, ElementsAre(7, 9));
}

// Suspends and is never resumed. The handles are kept: what is in flight for good is lost on purpose, not leaked.
struct Forever {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) const {
    static auto* const parked = new std::vector<std::coroutine_handle<>>;
    parked->push_back(handle);
  }
  void await_resume() const {}
};

Task<void> park() { co_await Forever{}; }

Task<void> await_nothing(Machine* machine) {
  TaskScope scope(machine->executor);
  scope.spawn(park());
  co_await scope.join();
}

TEST(SimMachine, a_run_that_can_not_end_is_an_error_even_with_tasks_in_flight) {
  Simulation simulation(round_options());
  EXPECT_THROW(simulation.run(await_nothing(&simulation.machine())), RunError);
}

TEST(SimMachine, memory_answers_over_budget_and_phantom_memory_has_no_bytes) {
  SimOptions options = round_options();
  options.memory_limits = {MiB, 0, 0, 0};
  options.phantom = true;
  Simulation simulation(options);
  Memory& memory = simulation.machine().memory;
  const Lease lease = memory.lease(512 * KiB, Placement::dram, Region::hot).value_or_throw();
  EXPECT_EQ(lease.data(), nullptr);
  EXPECT_EQ(memory.lease(MiB, Placement::dram, Region::hot).status().code, Code::over_budget);
}

TEST(SimMachine, the_devices_own_limits_hold_when_none_are_given) {
  SimOptions options = round_options();
  options.memory_limits.reset();
  Simulation simulation(options);
  EXPECT_EQ(simulation.machine().memory.budget(Placement::dram).limit, 1'000'000'000u);
  EXPECT_EQ(simulation.machine().memory.budget(Placement::npu_mapped).limit, MiB);
}

TEST(SimMachine, a_budget_above_what_the_phone_leaves_is_told) {
  const auto notes = [](Bytes budget) {
    SimOptions options = round_options();
    options.memory_limits = {budget, 0, 0, 0};
    return Simulation(options).host().report(Picoseconds(0), Picoseconds(0)).notes;
  };
  EXPECT_THAT(notes(1'000'000'000), testing::Not(Contains(HasSubstr("memory.budget"))));
  EXPECT_THAT(notes(1'000'000'001), Contains(HasSubstr("leaves to one application (dram.available)")));
}

TEST(SimMachine, units_are_named_fastest_first_and_can_be_chosen) {
  SimOptions options = oneplus12_options();
  Simulation all(options);
  std::vector<std::string> names, classes;
  for (const ComputeUnit* unit : all.machine().units) {
    names.push_back(unit->caps().name);
    classes.push_back(unit->caps().core_class);
  }
  EXPECT_THAT(names, ElementsAre("cpu0", "cpu1", "cpu2", "cpu3", "cpu4", "cpu5", "cpu6", "cpu7", "npu", "gpu"));
  EXPECT_THAT(classes, ElementsAre("big", "mid", "mid", "mid", "mid", "mid", "little", "little", "npu", "gpu"));
  options.threads = 3;
  EXPECT_EQ(Simulation(options).machine().units.size(), 3u);
  options.unit_names = {"cpu7", "npu"};
  Simulation chosen(options);
  EXPECT_EQ(chosen.machine().units[0]->caps().core_class, "little");
  EXPECT_EQ(chosen.machine().units[1]->caps().id, UnitId{1});
}

// A calibrated machine has a class for the core that the policy shares, and one for the others.
TEST(SimMachine, cores_that_cost_more_to_wake_are_as_fast) {
  const auto units = [](const std::string& others) {
    const std::string shared = "cores: 1, core_bandwidth: 10 GB/s, cluster_bandwidth: 16 GB/s, call_overhead: 0 us, ";
    const std::string fastest = "class: big, wake_up: 0 us, hand_back: 0 us, clock: 1 GHz, macs_per_cycle_otherwise: 1";
    SimOptions options = round_options({"cpu.clusters=[{" + shared + fastest + "}, {" + shared + others + "}]"});
    options.threads = 4;
    options.alike = true;
    return Simulation(options).machine().units.size();
  };
  const std::string wakes = "class: others, wake_up: 5 us, hand_back: 2 us, ";
  EXPECT_EQ(units(wakes + "clock: 1 GHz, macs_per_cycle_otherwise: 1"), 2u);
  EXPECT_EQ(units(wakes + "clock: 0.9 GHz, macs_per_cycle_otherwise: 1"), 1u);
  EXPECT_EQ(units(wakes + "clock: 1 GHz, macs_per_cycle_otherwise: 1, macs_per_cycle: {float.f32: 2}"), 1u);
}

// One core busy 6 of 10 us and reading 60 KB meanwhile, then a read of 4 KiB that takes 12 us alone.
Task<void> work_then_read(Machine* machine, FileId file) {
  Chain chain{test_call(6000, 60'000)};
  co_await run_chain(machine->units[0], std::move(chain));
  co_await sleep_until(machine->executor, 8 * kUs);
  IoResult result;
  co_await read_into(machine, read_request(*machine, file, 0, 4096), &result);
}

TEST(SimMachine, the_report_is_what_can_be_computed_by_hand) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  simulation.run(work_then_read(&machine, machine.storage.open_phantom(MiB).value_or_throw()));
  ASSERT_EQ(simulation.now(), 20 * kUs);
  const MachineReport report = simulation.host().report(Picoseconds(0), 20 * kUs);
  EXPECT_DOUBLE_EQ(*report.io_share, 12.0 / 20);
  EXPECT_DOUBLE_EQ(*report.cpu_utilization, (6.0 + 1.0) / 2 / 20);  // of two cores; 1 us is the driver's
  EXPECT_NEAR(*report.dram_bandwidth_gb_per_s, (60'000 + 4096) / 20e-6 * 1e-9, 1e-9);
  EXPECT_NEAR(*report.energy_j, 1 * 20e-6 + 2 * 7e-6 + 64'096 * 100e-12 + 4096 * 200e-12, 1e-15);
  const MachineReport first = simulation.host().report(Picoseconds(0), 10 * kUs);
  EXPECT_DOUBLE_EQ(*first.io_share, 2.0 / 10);
  EXPECT_NEAR(*first.dram_bandwidth_gb_per_s, 6, 1e-9);
  EXPECT_NEAR(*first.peak_power_w, 1 + 2 * 0.7 + 6e9 * 100e-12, 1e-9);
}

TEST(SimMachine, energy_is_null_without_a_power_block) {
  Simulation simulation(round_options({"power="}));
  simulation.run(run_chain(simulation.machine().units[0], {test_call(1000, 0)}));
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  EXPECT_FALSE(report.energy_j.has_value());
  EXPECT_FALSE(report.peak_power_w.has_value());
}

TEST(SimMachine, the_report_names_assumptions_in_use_and_calls_without_a_measured_rate) {
  SimOptions options = oneplus12_options();
  options.unit_names = {"cpu0"};
  Simulation simulation(options);
  KernelCall call = test_call(1000, 0);
  call.variant = VariantId{2};  // int8 on float32 operands: in no table
  simulation.run(run_chain(simulation.machine().units[0], {call}));
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  EXPECT_THAT(report.unpriced_calls, ElementsAre("int8.f32 on big"));
  EXPECT_THAT(report.assumed_parameters, testing::Contains("cpu.big.wake_up"));
  EXPECT_THAT(report.assumed_parameters, testing::Not(testing::Contains("cpu.little.wake_up")));
  EXPECT_THAT(report.assumed_parameters, testing::Not(testing::Contains("dram.bandwidth")));
}

TEST(SimMachine, traces_units_flash_and_dram) {
  SpanTrace trace;
  Simulation simulation(round_options(), &trace);
  Machine& machine = simulation.machine();
  simulation.run(work_then_read(&machine, machine.storage.open_phantom(MiB).value_or_throw()));
  ASSERT_EQ(trace.spans.size(), 3u);
  EXPECT_EQ(trace.spans[0].track, "units/cpu0");
  EXPECT_EQ(trace.spans[0].name, "reduce");
  EXPECT_EQ(trace.spans[0].end, 6 * kUs);
  EXPECT_EQ(trace.spans[1].track, "link/flash");
  EXPECT_EQ(trace.spans[1].begin, 19 * kUs);
  EXPECT_EQ(trace.spans[2].track, "storage/flash") << "the request, from its submission";
  EXPECT_EQ(trace.spans[2].begin, 8 * kUs);
  EXPECT_EQ(trace.spans[2].end, trace.spans[1].end);
  EXPECT_THAT(trace.counters["memory/dram"], ElementsAre(testing::DoubleNear(10, 1e-9), 0, testing::DoubleNear(4.096, 1e-9), 0));
  EXPECT_THAT(trace.counters["storage/outstanding"], ElementsAre(1, 0));
}

TEST(SimMachine, what_a_core_does_for_the_system_is_drawn_as_one_span_while_it_lasts) {
  SpanTrace trace;
  SimOptions options = oneplus12_options();
  options.unit_names = {"cpu0"};
  Simulation simulation(options, &trace);
  Clock& clock = simulation.machine().clock;
  const auto work = [](Clock* charged) -> Task<void> {
    for (int i = 0; i < 100; ++i) charged->charge(PolicyWork::plan_step, 3);
    co_return;
  };
  simulation.run(work(&clock));
  EXPECT_TRUE(trace.spans.empty()) << "it may go on";
  simulation.host().report(Picoseconds(0), simulation.now());
  ASSERT_EQ(trace.spans.size(), 1u);
  EXPECT_EQ(trace.spans[0].name, "policy");
  EXPECT_EQ(trace.spans[0].begin, Picoseconds(0));
  EXPECT_EQ(trace.spans[0].end, clock.now());
  EXPECT_GT(clock.now(), Picoseconds(0));
}

}  // namespace
}  // namespace vitro::sim
