// What a unit with static shapes refuses, what its system gives back to the CPU, and how agents share memory.
#include <gmock/gmock.h>

#include "engine/base/rng.hpp"
#include "engine/ops/variants.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

using testing::HasSubstr;

// Two cores of 1e9 multiply-adds per second, an engine of 8e9 that has to be handed work in 10 us.
SimOptions options_with(const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{
      "core.cycles_per_row_run=0", "core.conversions_per_cycle=1e9", "cpu.bandwidth=10 GB/s", "npu=",
      "ane={cores: 1, tflops: 0.016, bandwidth: 10 GB/s, stream_bandwidth: 10 GB/s, graph_limit: 64 KiB, graph_count: 2, axis_limit: 256,"
      "dispatch: 10 us, synchronise: 0 us, switch_graph: 5 us, build: 1 ms, load: 100 us, call_overhead: 0 us}"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  SimOptions options = round_options(overrides);
  options.count = nullptr;
  return options;
}

KernelCall product(Machine& machine, std::uint32_t n, std::uint32_t m, Format format = Format::f16) {
  constexpr std::uint32_t kDepth = 128;
  const auto view = [&](std::uint32_t rows, std::uint32_t columns, Format of) {
    View v;
    v.memory = machine.memory.lease(4ull * rows * columns, Placement::dram, Region::hot).value_or_throw();
    v.shape = {rows, columns, 0};
    v.format = of;
    return v;
  };
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kFloat;
  call.in = {view(n, kDepth, format), view(m, kDepth, Format::f32)};
  call.out = {view(m, n, Format::f32)};
  call.batch = std::make_shared<const std::vector<SeqPos>>(m);
  return call;
}

struct Seen {
  Status load, launch;
  Picoseconds took{0}, loading{0};
};

Task<void> load_and_run(Machine* machine, ComputeUnit* unit, GraphSpec spec, Batch batch, Seen* seen) {
  const Picoseconds asked = machine->clock.now();
  Result<Graph> graph = co_await unit->load(std::move(spec));
  seen->loading = machine->clock.now() - asked;
  if (!graph.ok()) {
    seen->load = graph.status();
    co_return;
  }
  const Picoseconds begin = machine->clock.now();
  Bindings bindings;
  bindings.batch = std::move(batch);
  const RunResult result = co_await unit->launch(graph.value(), std::move(bindings));
  seen->launch = result.status;
  seen->took = machine->clock.now() - begin;
  unit->unload(graph.value());
}

ComputeUnit* unit_named(Machine& machine, std::string_view name) {
  for (ComputeUnit* unit : machine.units) {
    if (unit->caps().name == name) return unit;
  }
  return nullptr;
}

struct AneRun {
  Seen seen;
  MachineReport report;
};

AneRun run_on_ane(const std::function<GraphSpec(Machine&)>& spec, Batch batch = nullptr, const std::vector<std::string>& more = {}) {
  Simulation simulation(options_with(more));
  Machine& machine = simulation.machine();
  AneRun run;
  simulation.run(load_and_run(&machine, unit_named(machine, "ane"), spec(machine), std::move(batch), &run.seen));
  run.report = simulation.host().report(Picoseconds(0), simulation.now());
  return run;
}

GraphSpec one_product(Machine& machine, std::uint32_t n, std::uint32_t m) { return {"one", {product(machine, n, m)}, true}; }

TEST(SimAne, a_launch_pays_for_dispatch_and_for_changing_the_graph) {
  const AneRun run = run_on_ane([](Machine& m) { return one_product(m, 128, 128); });
  const Picoseconds weights(128 * 128 * 2 * 100), cores(128 * 128 * 128 * 125);
  EXPECT_EQ(run.seen.took, 15 * kUs + weights + cores);
  EXPECT_EQ(run.seen.loading, 100 * kUs);
}

TEST(SimAne, building_costs_more_than_running_unless_it_was_done_ahead) {
  const AneRun run = run_on_ane([](Machine& m) { return GraphSpec{"one", {product(m, 128, 128)}, false}; });
  EXPECT_EQ(run.seen.loading, 1100 * kUs);
}

TEST(SimAne, refuses_another_batch_than_the_one_it_was_built_for) {
  const auto batch = [](std::size_t rows) { return std::make_shared<const std::vector<SeqPos>>(rows); };
  const auto spec = [](Machine& m) { return one_product(m, 128, 32); };
  EXPECT_TRUE(run_on_ane(spec, batch(32)).seen.launch.ok());
  const Status status = run_on_ane(spec, batch(7)).seen.launch;
  EXPECT_EQ(status.code, Code::unsupported_shape);
  EXPECT_THAT(status.message, AllOf(HasSubstr("static shapes"), HasSubstr("32 rows"), HasSubstr("7")));
}

TEST(SimAne, refuses_shapes_operators_and_formats_with_the_reason) {
  const auto refusal = [](auto change) {
    const AneRun run = run_on_ane([&](Machine& m) {
      GraphSpec spec = one_product(m, 128, 32);
      change(m, spec.calls[0]);
      return spec;
    });
    EXPECT_EQ(run.seen.load.code, Code::unsupported_shape);
    return run.seen.load.message;
  };
  EXPECT_THAT(refusal([](Machine&, KernelCall& call) { call.batch = nullptr; }), HasSubstr("names no batch"));
  EXPECT_THAT(refusal([](Machine&, KernelCall& call) { call.rows = std::make_shared<const std::vector<std::uint32_t>>(3); }),
              HasSubstr("chosen at run time"));
  EXPECT_THAT(refusal([](Machine&, KernelCall& call) { call.op = ops::RmsNorm{}; }), HasSubstr("layer norm"));
  EXPECT_THAT(refusal([](Machine& m, KernelCall& call) { call = product(m, 128, 32, Format::q4_0); }),
              AllOf(HasSubstr("q4_0"), HasSubstr("expected f16")));
}

Task<void> run_chain_on(ComputeUnit* unit, KernelCall call, Status* status) {
  const RunResult result = co_await unit->run(std::move(call));
  *status = result.status;
}

TEST(SimAne, takes_graphs_and_a_gpu_takes_chains) {
  Simulation simulation(
      options_with({"gpu={bandwidth: 10 GB/s, launch: 3 us, synchronise: 0 us, kernel_overhead: 1 us,"
                    "macs_per_second_otherwise: 16e9, attention_macs_per_second: 1e9, elementwise_per_second: 1e9,"
                    "conversions_per_second: 1e9, lookups_per_second: 1e9}"}));
  Machine& machine = simulation.machine();
  Status ane, gpu;
  std::vector<Task<void>> tasks;
  tasks.push_back(run_chain_on(unit_named(machine, "ane"), product(machine, 128, 128), &ane));
  tasks.push_back(run_chain_on(unit_named(machine, "gpu"), product(machine, 128, 128), &gpu));
  simulation.run(together(&machine, std::move(tasks)));
  EXPECT_EQ(ane.code, Code::unsupported_shape);
  EXPECT_THAT(ane.message, HasSubstr("static shapes"));
  EXPECT_TRUE(gpu.ok());
}

// Weights of 256 x 128 x 2 B are the limit of 64 KiB; at 256 rows the engine needs 2 ms and both cores together 4 ms.
TEST(SimAne, a_graph_beyond_the_limit_runs_at_the_speed_of_the_cpu) {
  const auto spec = [](std::uint32_t products) {
    return [products](Machine& m) {
      GraphSpec graph{"experts", {}, true};
      for (std::uint32_t i = 0; i < products; ++i) graph.calls.push_back(product(m, 128, 256));
      return graph;
    };
  };
  const AneRun within = run_on_ane(spec(2)), beyond = run_on_ane(spec(3)),
               unlimited = run_on_ane(spec(3), nullptr, {"ane.graph_limit=1 MiB"});
  EXPECT_EQ(within.report.cpu_utilization, 0);
  EXPECT_GT(beyond.report.cpu_utilization.value(), 0.9);
  EXPECT_EQ(unlimited.report.cpu_utilization, 0);
  const double macs = 3.0 * 128 * 128 * 256;
  EXPECT_NEAR(to_seconds(beyond.seen.took), macs / 2e9 + 10e-6, 1e-9);
  EXPECT_LT(unlimited.seen.took * 3, beyond.seen.took);
  EXPECT_THAT(beyond.report.notes, testing::Contains(AllOf(HasSubstr("ane: 1 graphs ran on the CPU"), HasSubstr("96.00 KiB"))));
  EXPECT_THAT(within.report.notes, testing::Not(testing::Contains(HasSubstr("on the CPU"))));
}

TEST(SimAne, a_fallback_gives_the_same_events_again) {
  const auto spec = [](Machine& m) { return one_product(m, 257, 64); };
  const std::string once = run_on_ane(spec).report.event_hash;
  EXPECT_EQ(run_on_ane(spec).report.event_hash, once);
  EXPECT_NE(run_on_ane([](Machine& m) { return one_product(m, 256, 64); }).report.event_hash, once);
}

TEST(SimAne, an_axis_beyond_the_limit_runs_on_the_cpu_too) {
  const AneRun run = run_on_ane([](Machine& m) { return one_product(m, 257, 16); }, nullptr, {"ane.graph_limit=1 MiB"});
  EXPECT_GT(run.report.cpu_utilization.value(), 0);
  EXPECT_THAT(run.report.notes, testing::Contains(HasSubstr("axis of 257")));
}

Task<void> load_three(Machine* machine, ComputeUnit* unit) {
  std::vector<Graph> graphs;
  for (int i = 0; i < 3; ++i) {
    GraphSpec spec = one_product(*machine, 128, 16);
    graphs.push_back((co_await unit->load(std::move(spec))).value_or_throw());
  }
  for (const Graph& graph : graphs) {
    Bindings bindings;
    const RunResult result = co_await unit->launch(graph, std::move(bindings));
    result.status.or_throw();
    unit->unload(graph);
  }
}

TEST(SimAne, a_graph_above_their_number_runs_on_the_cpu) {
  Simulation simulation(options_with());
  Machine& machine = simulation.machine();
  simulation.run(load_three(&machine, unit_named(machine, "ane")));
  EXPECT_THAT(simulation.host().report(Picoseconds(0), simulation.now()).notes, testing::Contains(HasSubstr("came when 2 were loaded")));
}

TEST(SimAne, without_cpu_cores_nothing_is_left_to_fall_back_to) {
  SimOptions options = options_with();
  options.unit_names = {"ane"};
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  Seen seen;
  simulation.run(load_and_run(&machine, machine.units[0], {"wide", {product(machine, 257, 16)}, true}, nullptr, &seen));
  EXPECT_EQ(seen.load.code, Code::over_budget);
}

// The engine's own kernels and a graph that came back share the cores.
TEST(SimAne, a_fallback_takes_the_cores_from_others) {
  const auto took = [](bool fallback) {
    Simulation simulation(options_with());
    Machine& machine = simulation.machine();
    Seen seen;
    std::vector<Task<void>> tasks;
    Chain chain{product(machine, 128, 256)};
    tasks.push_back(run_chain(machine.units[0], std::move(chain)));
    if (fallback)
      tasks.push_back(load_and_run(&machine, unit_named(machine, "ane"), {"wide", {product(machine, 512, 64)}, true}, nullptr, &seen));
    simulation.run(together(&machine, std::move(tasks)));
    return simulation.now();
  };
  const Picoseconds alone = took(false), both = took(true);
  EXPECT_GE(both, alone + Picoseconds(512 * 128 * 64 / 2 * 1000));
}

// A second agent never raises the bandwidth of the first: CPU cores, NPU and GPU, in any company.
TEST(Contention, another_agent_never_raises_the_bandwidth_of_the_first) {
  const auto moved = [](const std::vector<std::size_t>& agents, std::size_t of) {
    SimOptions options = oneplus12_options();
    Simulation simulation(options);
    Machine& machine = simulation.machine();
    std::vector<Picoseconds> ends(machine.units.size());
    std::vector<Task<void>> tasks;
    const auto stream = [](Machine* m, ComputeUnit* unit, int calls, Picoseconds* end) -> Task<void> {
      GraphSpec spec{"stream", Chain(static_cast<std::size_t>(calls), test_call(0, 4e6)), true};
      const Graph graph = (co_await unit->load(std::move(spec))).value_or_throw();
      Bindings bindings;
      const RunResult result = co_await unit->launch(graph, std::move(bindings));
      result.status.or_throw();
      *end = m->clock.now();
    };
    for (const std::size_t agent : agents) tasks.push_back(stream(&machine, machine.units[agent], agent == of ? 8 : 40, &ends[agent]));
    simulation.run(together(&machine, std::move(tasks)));
    return ends[of];
  };
  constexpr std::size_t kNpu = 8, kGpu = 9;
  Rng rng(7);
  for (int trial = 0; trial < 12; ++trial) {
    std::vector<std::size_t> agents{trial % 3 == 0 ? 0 : trial % 3 == 1 ? kNpu : kGpu};
    Picoseconds before = moved(agents, agents[0]);
    for (const std::size_t next : {std::size_t{1 + rng.below(5)}, kNpu, kGpu, std::size_t{7}}) {
      if (std::find(agents.begin(), agents.end(), next) != agents.end()) continue;
      agents.push_back(next);
      const Picoseconds after = moved(agents, agents[0]);
      EXPECT_GE(after, before) << "agent " << agents[0] << " beside " << next;
      before = after;
    }
  }
}

}  // namespace
}  // namespace vitro::sim
