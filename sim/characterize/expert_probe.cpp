#include <algorithm>

#include "sim/characterize/bench.hpp"

namespace vitro::sim {
namespace {

struct Experts {
  std::uint32_t experts = 0, top_k = 0, group = 0, capacity = 0, hidden = 0, ffn = 0;
  std::uint32_t tokens = 0;  // of one chunk
  Picoseconds host{0};       // per token, on one thread: gathering its rows before, scattering them after
  bool side_by_side = false;
  Picoseconds begin{0}, end{0};
};

// The host's one thread is that of the policy: its core is busy meanwhile, draws power and takes the results of nobody. In steps of
// planning, since that is what a policy can ask of its core.
void on_host(Machine& machine, Picoseconds duration) {
  const Picoseconds before = machine.clock.now();
  machine.clock.charge(PolicyWork::plan_step, 1);
  const Picoseconds step = machine.clock.now() - before;
  if (step.count() == 0) throw ConfigError("expert_groups: cpu.plan_step_cycles is 0 (expected more: the host's work is counted in them)");
  const auto steps = static_cast<std::uint32_t>(duration / step);
  if (steps > 1) machine.clock.charge(PolicyWork::plan_step, steps - 1);
}

// `group` experts with `capacity` rows each: gate and up, their product, down.
Chain group_of(Bench& bench, const Experts& e) {
  Chain chain;
  for (std::uint32_t i = 0; i < e.group; ++i) {
    for (int times = 0; times < 2; ++times) {
      chain.push_back(product_call(bench, {.variant = "float", .format = Format::f16, .m = e.capacity, .n = e.ffn, .k = e.hidden}));
    }
    KernelCall glu;
    glu.op = ops::Glu{};
    glu.in = {chain[chain.size() - 2].out[0], chain.back().out[0]};
    glu.out = {glu.in[0]};
    glu.batch = chain.back().batch;
    chain.push_back(std::move(glu));
    chain.push_back(product_call(bench, {.variant = "float", .format = Format::f16, .m = e.capacity, .n = e.hidden, .k = e.ffn}));
  }
  return chain;
}

Task<void> run_group(Machine* machine, ComputeUnit* unit, Graph graph, Picoseconds host_time) {
  on_host(*machine, host_time / 2);
  Bindings bindings;
  const RunResult result = co_await unit->launch(graph, std::move(bindings));
  result.status.or_throw();
  on_host(*machine, host_time / 2);
}

Task<void> run_layer(Bench* bench, std::vector<ComputeUnit*> units, Experts* e) {
  Machine& machine = bench->machine();
  const std::uint32_t groups = e->experts / e->group;
  if (!e->side_by_side) units.resize(1);
  std::vector<Graph> graphs;
  for (std::uint32_t g = 0; g < groups; ++g) {
    GraphSpec spec{"group", group_of(*bench, *e), true};
    graphs.push_back((co_await units[g % units.size()]->load(std::move(spec))).value_or_throw());
  }
  e->begin = machine.clock.now();
  TaskScope scope(machine.executor);
  for (std::uint32_t g = 0; g < groups; ++g) {
    Task<void> group = run_group(&machine, units[g % units.size()], graphs[g], e->host * e->tokens / groups);
    if (e->side_by_side) {
      scope.spawn(std::move(group));
    } else {
      co_await std::move(group);
    }
  }
  co_await scope.join();
  e->end = machine.clock.now();
}

}  // namespace

// A chunk fills the capacity of all experts, unless the prompt ends before: NPUMoE 5.1 has chunks of 256, 512 and 1024 tokens
// for capacities of 32, 64 and 128.
ProbeResult expert_groups(const Node& device, Reader& args) {
  Bench bench(device);
  const std::vector<ComputeUnit*> units = bench.units(args, "units");
  Experts e;
  const auto number = [&](std::string_view key, std::int64_t most) { return static_cast<std::uint32_t>(args.integer(key, 1, most)); };
  e.experts = number("experts", 1024);
  e.top_k = number("top_k", e.experts);
  e.group = number("group", e.experts);
  e.capacity = number("capacity", 1 << 16);
  e.hidden = number("hidden", 1 << 16);
  e.ffn = number("ffn", 1 << 18);
  const std::uint32_t prompt = number("prompt", 1 << 20);
  e.host = from_seconds(args.quantity("host_per_token", Dimension::time));
  e.side_by_side = args.choice("mode", {"serial", "parallel"}) == "parallel";
  if (e.experts % e.group != 0) args.fail("group", "does not divide the number of experts");
  args.finish();
  e.tokens = std::min(prompt, e.experts * e.capacity / e.top_k);
  std::vector<Task<void>> tasks;
  tasks.push_back(run_layer(&bench, units, &e));
  bench.run(std::move(tasks));
  std::vector<std::pair<std::string, double>> measures{{"seconds_per_token", to_seconds(e.end - e.begin) / e.tokens}};
  if (const auto joules = bench.report(e.begin, e.end).energy_j) measures.emplace_back("joules_per_token", *joules / e.tokens);
  return bench.result(std::move(measures));
}

}  // namespace vitro::sim
