#include <gmock/gmock.h>

#include "engine/base/rng.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

// Random calls, reads and charges on every core, as a policy would mix them.
Task<void> busy_lane(Machine* machine, FileId file, std::uint64_t seed, std::size_t unit, std::vector<double>* sums) {
  Rng rng(seed);
  for (int i = 0; i < 40; ++i) {
    machine->clock.charge(PolicyWork::plan_step, 1 + static_cast<std::uint32_t>(rng.below(4)));
    if (rng.below(3) == 0) {
      ReadRequest request =
          read_request(*machine, file, rng.below(1000) * kPageSize, (1 + rng.below(20)) * 1000, Pattern::random, UnitId(unit));
      if (rng.below(4) == 0) request.page_fault = rng.below(2) == 0 ? PageFault::waits : PageFault::goes_on;
      IoResult result;
      co_await read_into(machine, std::move(request), &result);
      (*sums)[unit] += static_cast<double>(result.done);
    } else {
      Chain chain{test_call(static_cast<double>(rng.below(100'000)), static_cast<double>(rng.below(1'000'000)))};
      co_await run_chain(machine->units[unit], std::move(chain));
      (*sums)[unit] += 1;
    }
  }
}

struct Outcome3 {
  std::string hash;
  Picoseconds end;
  std::vector<double> sums;
  double energy = 0;
};

Outcome3 simulate(std::uint64_t seed, std::optional<std::uint64_t> shuffle = std::nullopt) {
  SimOptions options = oneplus12_options();
  options.threads = 8;
  options.shuffle = shuffle;
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  const FileId file = machine.storage.open_phantom(64 * MiB).value_or_throw();
  Outcome3 outcome;
  outcome.sums.resize(8);
  std::vector<Task<void>> tasks;
  for (std::size_t unit = 0; unit < 8; ++unit) tasks.push_back(busy_lane(&machine, file, mix(seed, {unit}), unit, &outcome.sums));
  simulation.run(together(&machine, std::move(tasks)));
  outcome.end = simulation.now();
  const MachineReport report = simulation.host().report(Picoseconds(0), outcome.end);
  outcome.hash = report.event_hash;
  outcome.energy = *report.energy_j;
  return outcome;
}

TEST(Determinism, one_seed_gives_one_history) {
  const Outcome3 a = simulate(1), b = simulate(1), c = simulate(2);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.energy, b.energy);
  EXPECT_NE(a.hash, c.hash);
}

TEST(Determinism, shuffled_ties_change_no_result_of_work_that_commutes) {
  const Outcome3 plain = simulate(1), a = simulate(1, 11), again = simulate(1, 11), b = simulate(1, 12);
  EXPECT_EQ(a.sums, plain.sums);
  EXPECT_EQ(b.sums, plain.sums);
  EXPECT_EQ(a.hash, again.hash);
  EXPECT_NE(a.hash, plain.hash);
}

View vector_of(Machine& machine, std::uint32_t n) {
  View view;
  view.memory = machine.memory.lease(n * 4, Placement::dram, Region::activation).value_or_throw();
  view.shape = {1, n, 0};
  return view;
}

KernelCall adding(const View& a, const View& b, const View& out) {
  KernelCall call = test_call(10'000, 0);
  call.op = ops::Add{};
  call.in = {a, b};
  call.out = {out};
  call.slice = Slice{};
  return call;
}

Task<void> overwrite_at(Machine* machine, Picoseconds when, View view) {
  co_await sleep_until(machine->executor, when);
  *view.as<float>() += 1;
}

TEST(OperandCheck, catches_a_buffer_that_changes_in_flight) {
  for (const bool checked : {false, true}) {
    SimOptions options = round_options();
    options.check_operands = checked;
    Simulation simulation(options);
    Machine& machine = simulation.machine();
    const View a = vector_of(machine, 16), b = vector_of(machine, 16), out = vector_of(machine, 16);
    std::vector<Task<void>> tasks;
    tasks.push_back(run_chain(machine.units[0], {adding(a, b, out)}));
    tasks.push_back(overwrite_at(&machine, 5 * kUs, b));
    std::string message;
    try {
      simulation.run(together(&machine, std::move(tasks)));
    } catch (const RunError& error) {
      message = error.what();
    }
    EXPECT_EQ(message, checked ? "cpu0: operand 1 of add (layer -1) was overwritten while the call was in flight" : "");
  }
}

TEST(OperandCheck, what_the_chain_itself_writes_may_change) {
  SimOptions options = round_options();
  options.check_operands = true;
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  const View a = vector_of(machine, 16), b = vector_of(machine, 16), out = vector_of(machine, 16);
  simulation.function.effect = [](const KernelCall& call) { *call.out[0].as<float>() += 1; };
  simulation.run(run_chain(machine.units[0], {adding(a, b, out), adding(out, b, a), adding(a, out, a)}));
  EXPECT_EQ(*a.as<float>(), 2);
}

}  // namespace
}  // namespace vitro::sim
