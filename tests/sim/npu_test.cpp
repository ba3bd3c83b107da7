#include <gmock/gmock.h>

#include "engine/ops/variants.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

using testing::HasSubstr;

// Loads, launches `times` times and unloads.
Task<void> load_and_launch(ComputeUnit* unit, GraphSpec spec, int times, std::vector<Picoseconds>* log, Clock* clock) {
  const Graph graph = (co_await unit->load(std::move(spec))).value_or_throw();
  log->push_back(clock->now());
  for (int i = 0; i < times; ++i) {
    Bindings bindings;
    const RunResult result = co_await unit->launch(graph, std::move(bindings));
    result.status.or_throw();
    log->push_back(clock->now());
  }
  unit->unload(graph);
}

TEST(SimNpu, a_graph_pays_for_loading_once_and_for_each_launch) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  std::vector<Picoseconds> log;
  GraphSpec spec{"g", {test_call(0, 200'000), test_call(0, 20'000)}};
  simulation.run(load_and_launch(machine.units[2], spec, 2, &log, &machine.clock));
  const Picoseconds launch = 10 * kUs + 10 * kUs + 1 * kUs + 1 * kUs;  // queue, two calls at 20 GB/s, hand-back
  EXPECT_EQ(log, (std::vector{100 * kUs, 100 * kUs + launch, 100 * kUs + 2 * launch}));
}

TEST(SimNpu, another_graph_than_the_last_is_switched_to_and_one_that_nobody_built_is_built) {
  Simulation simulation(round_options({"npu.switch_graph=7 us", "npu.build=3 us"}));
  Machine& machine = simulation.machine();
  std::vector<Picoseconds> log;
  simulation.run(load_and_launch(machine.units[2], {"a", {test_call(0, 200'000)}}, 2, &log, &machine.clock));
  simulation.run(load_and_launch(machine.units[2], {"b", {test_call(0, 200'000)}, true}, 1, &log, &machine.clock));
  const Picoseconds launch = 10 * kUs + 10 * kUs + 1 * kUs, first = 103 * kUs, second = first + 7 * kUs + 2 * launch;
  EXPECT_EQ(log, (std::vector{first, first + 7 * kUs + launch, second, second + 100 * kUs, second + 107 * kUs + launch}));
}

TEST(SimNpu, a_detailed_run_repeats_itself) {
  const auto hash = [] {
    Simulation simulation(round_options({"npu.fidelity=detailed"}));
    Machine& machine = simulation.machine();
    std::vector<Picoseconds> log;
    simulation.run(load_and_launch(machine.units[2], {"g", {test_call(0, 2e6), test_call(1e3, 3e5)}}, 2, &log, &machine.clock));
    EXPECT_GT(log.back(), 200 * kUs);
    return simulation.host().report(Picoseconds(0), simulation.now()).event_hash;
  };
  EXPECT_EQ(hash(), hash());
}

TEST(SimNpu, a_tile_has_32_rows_whether_they_are_used_or_not) {
  std::vector<Picoseconds> times;
  for (const std::uint32_t rows : {1u, 32u, 33u}) {
    SimOptions options = round_options();
    options.memory_limits = {0, MiB, 0, 0};
    Simulation simulation(options);
    Machine& machine = simulation.machine();
    KernelCall call;
    call.op = ops::Matmul{};  // one tile of weights, all operands in TCM
    call.variant = variant::kFloat;
    call.in.push_back({machine.memory.lease(4 * KiB, Placement::npu_tcm, Region::hot).value_or_throw(), 0, {32, 32, 0}});
    call.batch = std::make_shared<const std::vector<SeqPos>>(rows, SeqPos{1024, 0});
    std::vector<Picoseconds> log;
    simulation.run(load_and_launch(machine.units[2], {"g", {call}}, 1, &log, &machine.clock));
    times.push_back(log[1] - log[0] - 11 * kUs);
  }
  EXPECT_EQ(times, (std::vector{32 * kUs, 32 * kUs, 64 * kUs}));
}

Task<void> launch_twice(ComputeUnit* unit, GraphSpec bad, GraphSpec good, std::string* said) {
  const Graph first = (co_await unit->load(std::move(bad))).value_or_throw();
  const Graph second = (co_await unit->load(std::move(good))).value_or_throw();
  try {
    Bindings none;
    (co_await unit->launch(first, std::move(none))).status.or_throw();
  } catch (const RunError& error) {
    *said = error.what();
  }
  Bindings none;
  (co_await unit->launch(second, std::move(none))).status.or_throw();
}

TEST(SimNpu, a_call_that_has_no_room_in_its_memory_fails_and_the_next_one_runs) {
  SimOptions options = round_options({"npu.tcm=16 KiB"});
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kFloat;
  call.in.push_back({machine.memory.lease(512 * KiB, Placement::dram, Region::fixed).value_or_throw(), 0, {16, 8192, 0}});
  call.batch = std::make_shared<const std::vector<SeqPos>>(32, SeqPos{0, 0});
  std::string said;
  simulation.run(launch_twice(machine.units[2], {"bad", {call}}, {"good", {test_call(0, 20'000)}}, &said));
  EXPECT_THAT(said, HasSubstr("TCM"));
}

Task<void> run_without_graph(ComputeUnit* unit, Status* status) {
  const RunResult result = co_await unit->run(test_call(1, 0));
  *status = result.status;
}

TEST(SimNpu, runs_loaded_graphs_only) {
  Simulation simulation(round_options());
  ComputeUnit* npu = simulation.machine().units[2];
  EXPECT_TRUE(npu->caps().static_graphs);
  Status status;
  simulation.run(run_without_graph(npu, &status));
  EXPECT_EQ(status.code, Code::unsupported_shape);
}

Task<void> load_twice(ComputeUnit* unit, GraphSpec big, Status* second, bool* after_unload) {
  GraphSpec copy = big;
  const Graph graph = (co_await unit->load(std::move(copy))).value_or_throw();
  copy = big;
  const Result<Graph> refused = co_await unit->load(std::move(copy));
  *second = refused.ok() ? Status{} : refused.status();
  unit->unload(graph);
  const Result<Graph> again = co_await unit->load(std::move(big));
  *after_unload = again.ok();
}

TEST(SimNpu, a_session_maps_no_more_than_its_limit) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  KernelCall call = test_call(1, 0);
  View weights;
  weights.memory = machine.memory.lease(600 * KiB, Placement::npu_mapped, Region::hot).value_or_throw();
  call.in = {weights, weights};  // mapped once
  Status second;
  bool after_unload = false;
  simulation.run(load_twice(machine.units[2], {"half", {call}}, &second, &after_unload));
  EXPECT_EQ(second.code, Code::over_budget);
  EXPECT_THAT(second.message, HasSubstr("1.00 MiB"));
  EXPECT_TRUE(after_unload);
}

TEST(SimNpu, a_cpu_core_runs_graphs_too) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  std::vector<Picoseconds> log;
  simulation.run(load_and_launch(machine.units[0], {"g", {test_call(5000, 0)}}, 1, &log, &machine.clock));
  EXPECT_EQ(log, (std::vector{Picoseconds(0), 5 * kUs}));
}

}  // namespace
}  // namespace vitro::sim
