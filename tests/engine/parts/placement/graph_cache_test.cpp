#include "engine/parts/placement/graph_cache.hpp"

#include <gtest/gtest.h>

#include "engine/machine/task_scope.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

struct Seen final : public Function {
  Outcome execute(const KernelCall& call) override {
    calls.push_back(call);
    return {};
  }
  std::vector<KernelCall> calls;
};

struct Bench {
  explicit Bench(bool static_graphs, Bytes session_limit = 0)
      : host(spec(static_graphs, session_limit), function, trace), graphs(host.machine()) {}
  static VirtualMachineSpec spec(bool static_graphs, Bytes session_limit) {
    VirtualMachineSpec spec;
    UnitCaps caps;
    caps.kind = UnitKind::npu;
    caps.name = "npu";
    caps.static_graphs = static_graphs;
    caps.session_limit = session_limit;
    spec.units.push_back(caps);
    return spec;
  }
  Seen function;
  NullTrace trace;
  VirtualMachine host;
  GraphCache graphs;
};

KernelCall product(Memory& memory, std::int16_t layer, std::uint32_t rows, IndexList chosen = {}) {
  KernelCall call;
  call.op = ops::Matmul{};
  call.layer = layer;
  call.batch = std::make_shared<const std::vector<SeqPos>>(rows);
  View weights, x, out;
  weights.memory = memory.lease(64, Placement::dram, Region::fixed).value_or_throw();
  weights.shape = {4, 4, 0};
  x.memory = memory.lease(64, Placement::dram, Region::activation).value_or_throw();
  x.shape = out.shape = {rows, 4, 0};
  out.memory = x.memory;
  call.in = {weights, x};
  call.out = {out};
  call.rows = std::move(chosen);
  return call;
}

Task<void> run_all(GraphCache* graphs, ComputeUnit* unit, std::vector<Chain> chains) {
  for (Chain& chain : chains) {
    const RunResult result = co_await graphs->run(unit, std::move(chain));
    result.status.or_throw();
  }
}

TEST(GraphCache, one_graph_serves_every_layer_with_its_own_weights_and_rows) {
  Bench bench(true);
  Memory& memory = bench.host.machine().memory;
  const auto rows = [](std::vector<std::uint32_t> r) { return std::make_shared<const std::vector<std::uint32_t>>(std::move(r)); };
  std::vector<Chain> chains{{product(memory, 0, 1, rows({0, 2}))}, {product(memory, 7, 1, rows({1, 3}))}};
  const std::vector<Chain> wanted = chains;
  bench.host.run(run_all(&bench.graphs, bench.host.machine().units[0], std::move(chains)));
  EXPECT_EQ(bench.graphs.graphs(), 1u);
  ASSERT_EQ(bench.function.calls.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const KernelCall &got = bench.function.calls[i], &want = wanted[i][0];
    EXPECT_EQ(got.layer, want.layer);
    EXPECT_EQ(got.in[0].memory.id(), want.in[0].memory.id());
    EXPECT_EQ(*got.rows, *want.rows);
  }
}

TEST(GraphCache, another_shape_is_another_graph) {
  Bench bench(true);
  Memory& memory = bench.host.machine().memory;
  Chain sliced{product(memory, 0, 1)};
  sliced[0].slice = {0, 2};
  std::vector<Chain> chains{{product(memory, 0, 1)}, {product(memory, 0, 2)}, sliced, {product(memory, 0, 1), product(memory, 1, 1)}};
  bench.host.run(run_all(&bench.graphs, bench.host.machine().units[0], std::move(chains)));
  EXPECT_EQ(bench.graphs.graphs(), 4u);
}

TEST(GraphCache, layers_within_a_chain_keep_their_distance) {
  Bench bench(true);
  Memory& memory = bench.host.machine().memory;
  std::vector<Chain> chains;
  for (const std::int16_t layer : {0, 5})
    chains.push_back({product(memory, layer, 1), product(memory, static_cast<std::int16_t>(layer + 1), 1)});
  bench.host.run(run_all(&bench.graphs, bench.host.machine().units[0], std::move(chains)));
  EXPECT_EQ(bench.graphs.graphs(), 1u);
  EXPECT_EQ(bench.function.calls[3].layer, 6);
}

Task<void> prepare_all(GraphCache* graphs, ComputeUnit* unit, std::vector<Chain> chains) {
  for (Chain& chain : chains) {
    std::string step = "a test";
    co_await graphs->prepare(unit, std::move(chain), std::move(step));
  }
}

TEST(GraphCache, a_launch_waits_for_no_graph_that_was_prepared) {
  Bench bench(true);
  Memory& memory = bench.host.machine().memory;
  ComputeUnit* const npu = bench.host.machine().units[0];
  bench.host.run(prepare_all(&bench.graphs, npu, {{product(memory, 0, 1)}, {product(memory, 0, 2)}}));
  bench.host.run(run_all(&bench.graphs, npu, {{product(memory, 3, 1)}, {product(memory, 3, 2)}, {product(memory, 3, 1)}}));
  EXPECT_EQ(bench.graphs.loads().loads, 2u);
  EXPECT_EQ(bench.graphs.loads().waits, 0u);
  bench.host.run(run_all(&bench.graphs, npu, {{product(memory, 3, 3)}}));
  EXPECT_EQ(bench.graphs.loads().loads, 3u);
  EXPECT_EQ(bench.graphs.loads().waits, 1u);
}

// Loads nothing at first.
class Reluctant final : public ComputeUnit {
 public:
  explicit Reluctant(Executor& executor) : executor_(executor) {
    caps_.name = "reluctant";
    caps_.static_graphs = true;
  }
  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return executor_; }
  Task<Result<Graph>> load(GraphSpec) override {
    if (ends_the_run) throw ConfigError("memory.budget: too small");
    co_return Result<Graph>(Graph{0, 0});
  }
  void unload(Graph) override {}
  bool ends_the_run = true;

 protected:
  void submit(const Chain&, Completion<RunResult>&) override { FAIL() << "a chain on a unit that runs graphs"; }
  void submit(const Graph&, const Bindings&, Completion<RunResult>& done) override { done.complete({}); }

 private:
  Executor& executor_;
  UnitCaps caps_;
};

TEST(GraphCache, a_load_that_ends_the_run_keeps_nobody_waiting) {
  Bench bench(true);
  Machine& machine = bench.host.machine();
  Reluctant unit(machine.executor);
  GraphCache graphs(machine);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(bench.host.run(run_all(&graphs, &unit, {{product(machine.memory, 0, 1)}})), ConfigError);
  unit.ends_the_run = false;
  bench.host.run(run_all(&graphs, &unit, {{product(machine.memory, 0, 1)}}));
  EXPECT_EQ(graphs.loads().loads, 1u);
}

TEST(GraphCache, what_is_expected_is_decided_once_and_loaded_by_whoever_comes_first) {
  Bench bench(true);
  Memory& memory = bench.host.machine().memory;
  ComputeUnit* const npu = bench.host.machine().units[0];
  bench.graphs.expect(npu, {product(memory, 0, 1)});
  bench.graphs.expect(npu, {product(memory, 5, 1)});
  EXPECT_EQ(bench.graphs.graphs(), 1u);
  EXPECT_EQ(bench.graphs.loads().loads, 0u);
  bench.host.run(run_all(&bench.graphs, npu, {{product(memory, 3, 1)}}));
  bench.host.run(prepare_all(&bench.graphs, npu, {{product(memory, 0, 1)}}));
  EXPECT_EQ(bench.graphs.graphs(), 1u);
  EXPECT_EQ(bench.graphs.loads().loads, 1u);
  EXPECT_EQ(bench.graphs.loads().waits, 1u);
}

TEST(GraphCache, units_without_static_graphs_run_chains_as_they_are) {
  Bench bench(false);
  std::vector<Chain> chains{{product(bench.host.machine().memory, 3, 1)}};
  bench.host.run(run_all(&bench.graphs, bench.host.machine().units[0], std::move(chains)));
  EXPECT_EQ(bench.graphs.graphs(), 0u);
  EXPECT_EQ(bench.function.calls.size(), 1u);
}

// Each product has a page of weights and one of activations of its own: two of them fit into five.
// A product, a move of its result, and another product: the core computes the one in the middle.
TEST(GraphCache, a_core_computes_what_an_accelerator_lacks_between_its_graphs) {
  VirtualMachineSpec spec = Bench::spec(true, 0);
  UnitCaps core;
  core.id = UnitId(1);
  core.kind = UnitKind::core;
  core.name = "cpu0";
  spec.units.push_back(core);
  std::vector<std::pair<std::string, std::string>> ran;
  spec.price = [&ran](const UnitCaps& caps, const KernelCall& call) {
    ran.emplace_back(caps.name, to_string(call.op));
    return Picoseconds(1);
  };
  Seen function;
  NullTrace trace;
  VirtualMachine host(spec, function, trace);
  GraphCache graphs(host.machine());
  graphs.help_with(host.machine().units[1]);
  Chain chain{product(host.machine().memory, 0, 2), product(host.machine().memory, 0, 2), product(host.machine().memory, 0, 2)};
  chain[1].op = ops::InverseRms{};
  host.run(graphs.prepare(host.machine().units[0], chain, ""));
  EXPECT_EQ(graphs.graphs(), 1u) << "both products have one form";
  ran.clear();
  host.run(run_all(&graphs, host.machine().units[0], {chain}));
  const std::vector<std::pair<std::string, std::string>> expected{{"npu", "matmul"}, {"cpu0", "inverse_rms"}, {"npu", "matmul"}};
  EXPECT_EQ(ran, expected);
  EXPECT_EQ(graphs.loads().waits, 0u);
  RunTogether runs(host.machine());
  EXPECT_FALSE(graphs.add_to(runs, *host.machine().units[0], chain)) << "the core's part waits for the accelerator's";
  EXPECT_EQ(chain.size(), 3u);
  graphs.clear();
  EXPECT_EQ(graphs.graphs(), 0u);
}

Task<void> run_together(GraphCache* graphs, Machine* machine, Chain* chain, bool* added) {
  RunTogether runs(*machine);
  *added = graphs->add_to(runs, *machine->units[0], *chain);
  const std::size_t count = co_await runs.end();
  for (std::size_t i = 0; i < count; ++i) runs.take(i).status.or_throw();
}

TEST(GraphCache, a_chain_joins_others_once_its_graph_is_there) {
  Bench bench(true);
  Machine& machine = bench.host.machine();
  Chain chain{product(machine.memory, 3, 1)};
  const Chain given = chain;
  bool added = true;
  bench.host.run(run_together(&bench.graphs, &machine, &chain, &added));
  EXPECT_FALSE(added);
  ASSERT_EQ(chain.size(), 1u) << "it is left for run()";
  bench.host.run(run_all(&bench.graphs, machine.units[0], {chain}));
  bench.function.calls.clear();
  bench.host.run(run_together(&bench.graphs, &machine, &chain, &added));
  EXPECT_TRUE(added);
  EXPECT_EQ(bench.graphs.graphs(), 1u);
  ASSERT_EQ(bench.function.calls.size(), 1u);
  EXPECT_EQ(bench.function.calls[0].layer, 3);
  EXPECT_EQ(bench.function.calls[0].in[0].memory.id(), given[0].in[0].memory.id());
}

TEST(GraphCache, what_launches_bind_counts_against_a_session_and_a_full_one_is_followed_by_another) {
  Bench bench(true, 5 * kPageSize);
  Memory& memory = bench.host.machine().memory;
  const std::vector<Chain> three{{product(memory, 0, 1)}, {product(memory, 1, 1)}, {product(memory, 2, 1)}};
  std::vector<Chain> chains{three[0], three[1], three[0], three[1]};
  bench.host.run(run_all(&bench.graphs, bench.host.machine().units[0], chains));
  EXPECT_TRUE(bench.graphs.notes().empty()) << "what is mapped already is not mapped again";
  chains = {three[2], three[0]};
  bench.host.run(run_all(&bench.graphs, bench.host.machine().units[0], chains));
  ASSERT_EQ(bench.graphs.notes().size(), 1u);
  EXPECT_EQ(bench.graphs.notes()[0], "npu: 2 sessions map 24.00 KiB, what is in several of them counted for each");
}

// A reward model beside the model that generates: what each maps fills the sessions of both.
TEST(GraphCache, two_models_share_the_sessions_of_a_unit) {
  Bench bench(true, 5 * kPageSize);
  Memory& memory = bench.host.machine().memory;
  ComputeUnit* const unit = bench.host.machine().units[0];
  GraphCache other(bench.host.machine(), &bench.graphs);
  bench.host.run(run_all(&bench.graphs, unit, {{product(memory, 0, 1)}, {product(memory, 1, 1)}}));
  bench.host.run(run_all(&other, unit, {{product(memory, 0, 1)}}));
  EXPECT_EQ(bench.graphs.mapped(), 6 * kPageSize);
  EXPECT_EQ(other.notes(), (std::vector<std::string>{"npu: 2 sessions map 24.00 KiB, what is in several of them counted for each"}));
  EXPECT_EQ(other.notes(), bench.graphs.notes());
}

TEST(GraphCache, a_launch_that_no_session_can_map_is_refused_by_name) {
  Bench bench(true, kPageSize);
  std::vector<Chain> chains{{product(bench.host.machine().memory, 3, 1)}};
  try {
    bench.host.run(run_all(&bench.graphs, bench.host.machine().units[0], chains));
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "npu: the operands from matmul to matmul of layer 3 are larger than the 4.00 KiB that one session can map");
  }
}

}  // namespace
}  // namespace vitro
