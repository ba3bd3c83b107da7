// Laws of the CPU as a whole: unlike cores, handing over, joining.
#include <gmock/gmock.h>

#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

// Big: 2 multiply-adds per cycle at 2 GHz. Little: 1 per cycle at 1 GHz. 4 : 1, as round_device has it otherwise.
SimOptions uneven_options(const std::string& wake_up = "0 us", const std::string& spin = "0 us") {
  SimOptions options = round_options();
  Node big = options.device.find_path("cpu.clusters")->items()[0];
  for (const auto& [key, value] : {std::pair("wake_up", wake_up), std::pair("spin", spin), std::pair("cores", std::string("1"))}) {
    big.set(key, Node::scalar(value));
  }
  Node little = big;
  little.set("class", Node::scalar("little"));
  big.set("clock", Node::scalar("2 GHz"));
  big.set("macs_per_cycle_otherwise", Node::scalar("2"));
  options.device.set_path("cpu.clusters", Node::list({big, little}));
  return options;
}

Task<void> one_call(ComputeUnit* unit, double macs) { return run_chain(unit, {test_call(macs, 0)}); }

Picoseconds split(double on_big, double on_little) {
  Simulation simulation(uneven_options());
  Machine& machine = simulation.machine();
  std::vector<Task<void>> parts;
  parts.push_back(one_call(machine.units[0], on_big));
  parts.push_back(one_call(machine.units[1], on_little));
  simulation.run(together(&machine, std::move(parts)));
  return simulation.now();
}

TEST(Cpu, work_split_evenly_over_unlike_cores_ends_with_the_slow_one) {
  EXPECT_EQ(split(20'000, 20'000), 20 * kUs);
  EXPECT_EQ(split(32'000, 8'000), 8 * kUs);  // in proportion to their speeds: both end together
  EXPECT_EQ(split(40'000, 0), 10 * kUs);     // the little core helps, if it gets little enough
}

Task<void> twice(Machine* machine, ComputeUnit* unit, Picoseconds pause) {
  co_await one_call(unit, 2000);
  co_await sleep_until(machine->executor, machine->clock.now() + pause);
  co_await one_call(unit, 2000);
}

Picoseconds two_calls(const std::string& spin, Picoseconds pause) {
  Simulation simulation(uneven_options("5 us", spin));
  Machine& machine = simulation.machine();
  simulation.run(twice(&machine, machine.units[1], pause));
  return simulation.now() - pause;
}

TEST(Cpu, a_worker_that_still_polls_needs_no_wake_up) {
  EXPECT_EQ(two_calls("20 us", 19 * kUs), 5 * kUs + 4 * kUs);
  EXPECT_EQ(two_calls("20 us", 21 * kUs), 10 * kUs + 4 * kUs);
  EXPECT_EQ(two_calls("0 us", 1 * kUs), 10 * kUs + 4 * kUs);
}

Task<void> join_rounds(Machine* machine, std::size_t cores, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    std::vector<Task<void>> parts;
    for (std::size_t core = 0; core < cores; ++core) {
      machine->clock.charge(PolicyWork::submit, 1);
      parts.push_back(one_call(machine->units[core], 10'000));
    }
    co_await together(machine, std::move(parts));
  }
}

// What a step pays for being split: a submission per core on the policy's core, one wake-up and one hand-back in all.
TEST(Cpu, a_barrier_costs_submissions_one_wake_up_and_one_hand_back) {
  const auto time = [](std::size_t cores, const std::vector<std::string>& costs) {
    Simulation simulation(round_options(costs));
    simulation.run(join_rounds(&simulation.machine(), cores, 10));
    return simulation.now() / 10;
  };
  const std::vector<std::string> free{"cpu.submit_cycles=0"}, paid{"cpu.submit_cycles=0", "core.wake_up=5 us", "core.hand_back=1 us"};
  EXPECT_EQ(time(2, free), 10 * kUs);
  EXPECT_EQ(time(2, paid), 16 * kUs);
  EXPECT_EQ(time(2, {"cpu.submit_cycles=1000"}) - time(1, {"cpu.submit_cycles=1000"}), 1 * kUs);
}

Task<void> unequal_parts(Machine* machine, std::vector<std::uint32_t> lengths) {
  std::vector<Task<void>> parts;
  for (std::size_t core = 0; core < lengths.size(); ++core) parts.push_back(one_call(machine->units[core], lengths[core]));
  co_await together(machine, std::move(parts));
}

// Each part that arrives takes the policy's core for a while; parts that come early do so behind those that still work.
TEST(Cpu, a_barrier_takes_in_the_result_of_each_part) {
  const auto time = [](std::vector<std::uint32_t> lengths, const std::string& cycles) {
    Simulation simulation(round_options({"cpu.barrier_cycles=" + cycles, "core.cores=3"}));
    simulation.run(unequal_parts(&simulation.machine(), std::move(lengths)));
    return simulation.now();
  };
  EXPECT_EQ(time({10'000, 10'000, 10'000}, "0"), 10 * kUs);
  for (const int cores : {1, 2, 3}) {
    EXPECT_EQ(time(std::vector<std::uint32_t>(static_cast<std::size_t>(cores), 10'000), "1000"), (10 + cores) * kUs) << cores;
  }
  // The policy shares its core with the first part, which ends that much later; the others wait for nobody.
  EXPECT_EQ(time({10'000, 2'000, 4'000}, "1000"), (10 + 2 + 1) * kUs);
  EXPECT_EQ(time({1'000, 4'000, 10'000}, "1000"), (10 + 1) * kUs);
}

Task<void> one_after_the_other(ComputeUnit* unit, int calls, double macs) {
  for (int i = 0; i < calls; ++i) co_await one_call(unit, macs);
}

SimOptions with_wake_costs(const std::string& costs) {
  SimOptions options = round_options();
  options.device.set_path("cpu.wake_costs", parse_yaml("{kind: measured, source: test, " + costs + "}", "test.yaml"));
  return options;
}

TEST(Cpu, wake_costs_that_nobody_knows_are_refused) { EXPECT_THROW(Simulation{with_wake_costs("magic: 2")}, ConfigError); }

// The first core has 100 us of work in one call; the other answers twice in that time.
TEST(Cpu, a_policy_that_wakes_takes_time_from_the_call_beside_it) {
  const auto time = [](const std::string& costs) {
    Simulation simulation(with_wake_costs(costs));
    Machine& machine = simulation.machine();
    std::vector<Task<void>> parts;
    parts.push_back(one_call(machine.units[0], 100'000));
    parts.push_back(one_after_the_other(machine.units[1], 2, 20'000));
    simulation.run(together(&machine, std::move(parts)));
    return simulation.now();
  };
  EXPECT_EQ(time("page_fault_cycles: 9"), 100 * kUs);
  EXPECT_EQ(time("interrupt_cost_us: 3, interrupt_latency_us: 7"), 106 * kUs);
  EXPECT_EQ(time("interrupt_cost_us: 3, interrupt_latency_us: 80"), 120 * kUs);  // the second one found a core at rest
}

// A policy that computes itself looks at answers when a call ends, and pays for each of them there.
TEST(Cpu, a_policy_that_computes_sees_answers_between_two_calls) {
  const auto time = [](std::vector<double> own, const std::string& costs) {
    Simulation simulation(with_wake_costs(costs));
    Machine& machine = simulation.machine();
    Chain chain;
    for (const double macs : own) chain.push_back(test_call(macs, 0));
    std::vector<Task<void>> parts;
    parts.push_back(run_chain(machine.units[0], std::move(chain)));
    parts.push_back(one_after_the_other(machine.units[1], 2, 20'000));
    simulation.run(together(&machine, std::move(parts)));
    return simulation.now();
  };
  const std::string costs = "answer_between_calls_us: 3, interrupt_cost_us: 50, interrupt_latency_us: 70";
  EXPECT_EQ(time({100'000}, costs), 120 * kUs);                // the first answer is seen at 100
  EXPECT_EQ(time({50'000, 50'000}, costs), 103 * kUs);         // at 50; the second one comes at 70 and is seen when the chain ends
  EXPECT_EQ(time({30'000, 30'000, 30'000}, costs), 96 * kUs);  // at 30, and the one that comes at 50 at 63
}

TEST(Cpu, an_answer_of_the_policys_own_core_delays_what_waits_there) {
  Simulation simulation(with_wake_costs("switch_cost_us: 2, interrupt_cost_us: 9"));
  Machine& machine = simulation.machine();
  std::vector<Task<void>> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(one_call(machine.units[0], 10'000));
  simulation.run(together(&machine, std::move(parts)));
  EXPECT_EQ(simulation.now(), 22 * kUs);
}

}  // namespace
}  // namespace vitro::sim
