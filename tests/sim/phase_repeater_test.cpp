// Phases that are replayed beside the same phases simulated: every time, count and joule has to be the same to the bit.
#include "sim/phase_repeater.hpp"

#include <gmock/gmock.h>

#include <map>

#include "engine/base/rng.hpp"
#include "engine/machine/run_together.hpp"
#include "tests/sim/simulation.hpp"
#include "tests/sim/span_trace.hpp"

namespace vitro::sim {
namespace {

struct History {
  Picoseconds end{0};
  std::vector<Picoseconds> ends;  // of each phase
  std::vector<std::uint32_t> tags;
  MachineReport report;
  std::uint64_t count(const std::string& name) const {
    for (const auto& [key, n] : report.counts) {
      if (key == name) return n;
    }
    return ~std::uint64_t{0};
  }
};

using Phase = std::vector<Chain>;  // by unit; empty: it has none

Task<void> run_phase(Machine* machine, Phase phase, std::vector<Picoseconds>* ends) {
  RunTogether runs(*machine);
  for (std::size_t unit = 0; unit < phase.size(); ++unit) {
    if (!phase[unit].empty()) runs.add(*machine->units[unit], std::move(phase[unit]));
  }
  const std::size_t chains = co_await runs.end();
  for (std::size_t i = 0; i < chains; ++i) runs.take(i).status.or_throw();
  ends->push_back(machine->clock.now());
}

// A model of so many layers, each with the same few phases. Some layers do something beside them.
struct Model {
  std::vector<Phase> phases;
  int layers = 30;
  int read_every = 0;   // layers; 0: never
  int sleep_every = 0;  // likewise
};

Task<void> run_layers(Machine* machine, const Model* model, FileId file, std::vector<Picoseconds>* ends) {
  for (int layer = 1; layer <= model->layers; ++layer) {
    for (const Phase& phase : model->phases) {
      machine->clock.charge(PolicyWork::plan_step, 3);
      co_await run_phase(machine, phase, ends);
    }
    if (model->sleep_every > 0 && layer % model->sleep_every == 0) co_await sleep_until(machine->executor, machine->clock.now() + 7 * kMs);
    if (model->read_every > 0 && layer % model->read_every == 0) {
      IoResult result;
      co_await read_into(machine, read_request(*machine, file, 0, 64 * KiB), &result);
    }
  }
}

History run(const Model& model, SimOptions options, bool repeated, TraceSink* trace = nullptr) {
  options.device.set_path("cpu.phases", Node::scalar(repeated ? "repeated" : "each"));
  Simulation simulation(options, trace);
  Machine& machine = simulation.machine();
  const FileId file = machine.storage.open_phantom(1 * MiB).value_or_throw();
  History history;
  simulation.run(run_layers(&machine, &model, file, &history.ends));
  history.end = simulation.now();
  history.tags = simulation.function.tags;
  history.report = simulation.host().report(Picoseconds(0), history.end);
  return history;
}

void expect_the_same(const History& ours, const History& theirs) {
  EXPECT_EQ(ours.report.event_hash, theirs.report.event_hash);
  EXPECT_EQ(ours.ends, theirs.ends);
  EXPECT_EQ(ours.tags, theirs.tags);
  for (const auto number : {&MachineReport::io_share, &MachineReport::cpu_utilization, &MachineReport::dram_bandwidth_gb_per_s,
                            &MachineReport::energy_j, &MachineReport::peak_power_w, &MachineReport::cpu_busy_s}) {
    EXPECT_EQ(ours.report.*number, theirs.report.*number);
  }
  for (const auto split : {&MachineReport::energy_parts_j, &MachineReport::energy_by_unit_j, &MachineReport::energy_by_kind_j,
                           &MachineReport::energy_causes_j, &MachineReport::communication_parts_j}) {
    EXPECT_EQ(ours.report.*split, theirs.report.*split);
  }
  for (const char* name : {"events", "runs", "reads", "posts"}) EXPECT_EQ(ours.count(name), theirs.count(name)) << name;
}

// Both ways; how many phases were repeated.
std::uint64_t compare(const Model& model, const SimOptions& options) {
  const History ours = run(model, options, true), theirs = run(model, options, false);
  expect_the_same(ours, theirs);
  EXPECT_EQ(theirs.count("repeated_phases"), 0u);
  return ours.count("repeated_phases");
}

Chain chain_of(std::initializer_list<std::pair<double, double>> macs_and_bytes, std::uint32_t tag) {
  Chain chain;
  for (const auto& [macs, bytes] : macs_and_bytes) chain.push_back(test_call(macs, bytes, tag++));
  return chain;
}

// One core waits for memory, the other computes and waits for both; then one has nothing to do.
Model two_phases() {
  const Phase both = {chain_of({{1e4, 2e5}, {0, 1e5}}, 10), chain_of({{3e4, 0}, {1e4, 3e5}, {0, 0}}, 20)};
  return {.phases = {both, {{}, chain_of({{5e3, 1e5}}, 30)}}};
}

std::vector<std::string> costs() {
  return {"core.wake_up=5 us", "core.spin=40 us", "core.hand_back=1 us", "core.call_overhead=200 ns", "cpu.barrier_cycles=300",
          "power.stalled_share={big: 0.25}"};
}

SimOptions device_with(std::vector<std::string> more = {}) {
  std::vector<std::string> all = costs();
  all.insert(all.end(), more.begin(), more.end());
  return round_options(all);
}

TEST(PhaseRepeater, all_but_the_first_phases_are_replayed) {
  const std::uint64_t repeated = compare(two_phases(), device_with());
  EXPECT_GE(repeated, 50u) << "of 60: a phase is new at first, and when what came before it differs";
  EXPECT_LT(repeated, 60u);
}

TEST(PhaseRepeater, chains_as_one_piece_too) { EXPECT_GE(compare(two_phases(), device_with({"cpu.calls=together"})), 50u); }

TEST(PhaseRepeater, what_wakes_the_policy_costs_the_same) {
  for (const char* costs : {"answer_between_calls_us: 2", "interrupt_latency_us: 3, interrupt_cost_us: 1, switch_cost_us: 4"}) {
    EXPECT_GE(compare(two_phases(), device_with({std::string("cpu.wake_costs={kind: measured, source: test, ") + costs + "}"})), 50u);
  }
}

TEST(PhaseRepeater, a_phase_after_a_read_or_a_pause_goes_on_exactly) {
  Model model = two_phases();
  model.read_every = 3;
  EXPECT_GT(compare(model, device_with()), 20u);
  model.sleep_every = 4;
  EXPECT_GT(compare(model, device_with()), 20u);
}

TEST(PhaseRepeater, clocks_that_follow_heat_and_load_change_when_they_would) {
  const std::vector<std::string> clocks = {
      "power.governor={lowest: {kind: assumed, source: test, big: 0.2}}",
      "power.thermal={resistance_k_per_w: 10, capacity_j_per_k: 1e-3, ambient: 25 degC, step: 300 us, clock_steps: {a: 0.5}, "
      "trip: 45 degC, hysteresis: 2 K}"};
  Model model = two_phases();
  model.layers = 400;
  const std::uint64_t repeated = compare(model, device_with(clocks));
  EXPECT_GT(repeated, 300u);
  EXPECT_LT(repeated, compare(model, device_with()));
  EXPECT_GT(run(model, device_with(clocks), true).end, run(model, device_with(), true).end) << "clocks do change";
}

TEST(PhaseRepeater, random_phases_are_the_same_to_the_bit) {
  std::uint64_t repeated = 0;
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Model model{.phases = {}, .layers = 12, .read_every = static_cast<int>(rng.below(6)), .sleep_every = static_cast<int>(rng.below(6))};
    for (std::uint64_t phases = 1 + rng.below(5); phases-- > 0;) {
      Phase phase(2);
      const std::uint64_t only = rng.below(4);
      for (std::size_t unit = 0; unit < 2; ++unit) {
        if (only == unit) continue;
        for (std::uint64_t calls = 1 + rng.below(4); calls-- > 0;) {
          phase[unit].push_back(test_call(rng.below(3) == 0 ? 0 : static_cast<double>(rng.below(200'000)),
                                          rng.below(3) == 0 ? 0 : static_cast<double>(rng.below(1'000'000)),
                                          static_cast<std::uint32_t>(rng.below(1000))));
        }
      }
      model.phases.push_back(std::move(phase));
    }
    std::vector<std::string> more;
    if (rng.below(2) == 0) more.push_back("cpu.calls=together");
    if (rng.below(2) == 0) more.push_back("core.spin=0 us");
    if (rng.below(2) == 0) more.push_back("dram.latency=100 ns");
    repeated += compare(model, device_with(more));
  }
  EXPECT_GT(repeated, 200u);
}

// Calls of one operator, one shape and one unit that move a byte more are other calls.
TEST(PhaseRepeater, a_call_that_differs_is_simulated) {
  Model model = two_phases();
  model.phases.push_back(model.phases[0]);
  model.phases[2][0][1] = test_call(0, 1e5 + 1, 11);
  model.layers = 1;
  EXPECT_EQ(compare(model, device_with()), 0u);
}

TEST(PhaseRepeater, nothing_is_repeated_while_a_trace_is_recorded_or_ties_are_drawn) {
  SpanTrace trace;
  const Model model = two_phases();
  const History traced = run(model, device_with(), true, &trace);
  EXPECT_EQ(traced.count("repeated_phases"), 0u);
  expect_the_same(traced, run(model, device_with(), true));
  SimOptions shuffled = device_with();
  shuffled.shuffle = 7;
  EXPECT_EQ(compare(model, shuffled), 0u);
}

TEST(PhaseRepeater, nothing_is_repeated_beside_another_task) {
  const auto run_beside = [](bool repeated) {
    SimOptions options = device_with({std::string("cpu.phases=") + (repeated ? "repeated" : "each")});
    Simulation simulation(options);
    Machine& machine = simulation.machine();
    const FileId file = machine.storage.open_phantom(1 * MiB).value_or_throw();
    const Model model = two_phases();
    History history;
    std::vector<Task<void>> tasks;
    tasks.push_back(run_layers(&machine, &model, file, &history.ends));
    tasks.push_back([](Machine* m) -> Task<void> { co_await sleep_until(m->executor, 3600 * 1000 * kMs); }(&machine));
    simulation.run(together(&machine, std::move(tasks)));
    history.report = simulation.host().report(Picoseconds(0), simulation.now());
    return history;
  };
  const History ours = run_beside(true);
  EXPECT_EQ(ours.count("repeated_phases"), 0u) << "it could be resumed in the middle of a phase";
  expect_the_same(ours, run_beside(false));
}

TEST(PhaseRepeater, a_call_that_fails_ends_the_run_with_its_error) {
  Simulation simulation(device_with());
  Machine& machine = simulation.machine();
  const FileId file = machine.storage.open_phantom(1 * MiB).value_or_throw();
  int calls = 0;
  simulation.function.effect = [&](const KernelCall& call) {
    if (call.slice.first == 21 && ++calls == 20) throw RunError("unit lost");
  };
  const Model model = two_phases();
  std::vector<Picoseconds> ends;
  try {
    simulation.run(run_layers(&machine, &model, file, &ends));
    FAIL() << "the error was lost";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "unit lost");
  }
  EXPECT_EQ(ends.size(), 2u * 19);
}

}  // namespace
}  // namespace vitro::sim
