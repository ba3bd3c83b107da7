// What experts take on units and on cores: asked of the machine, as everything that depends on time is.
#include <algorithm>

#include "engine/graph/lowering.hpp"
#include "engine/parts/ffn/experts/pool_views.hpp"
#include "engine/parts/ffn/experts/tiered_experts.hpp"

namespace vitro {

View TieredExperts::measured_rows(std::uint32_t rows) {
  View view = without_memory(rows, options_.width, options_.activations);
  const Bytes bytes = options_.activations.block_bytes() * rows * options_.width;
  Result<Lease> lease = machine_.memory.lease(bytes, Placement::dram, Region::activation);
  if (!lease.ok()) throw ConfigError("memory.budget: no room to measure experts: " + lease.status().message);
  view.memory = std::move(lease).value();
  return view;
}

// One expert of so many rows, shared out over all cores as a layer's cold experts are.
Task<double> TieredExperts::seconds_on_cores(std::uint32_t rows) {
  const View x = measured_rows(rows), out = measured_rows(rows);
  const Batch batch = rows_for_nobody(rows);
  std::vector<Chain> gated(options_.cores.size()), down(options_.cores.size());
  for (std::size_t core = 0; core < options_.cores.size(); ++core) {
    const Slice neurons = share_of(options_.ffn, grain(Role::ffn_gate, 0), core, options_.cores.size());
    const Slice columns = share_of(options_.width, grain(Role::ffn_down, 0), core, options_.cores.size());
    if (neurons.count > 0) append_gated(on_cores(), gated[core], 0, 0, batch, x, core_scratch_, 0, neurons);
    if (columns.count == 0) continue;
    down[core].push_back(product(on_cores(), Role::ffn_down, 0, 0, batch, wide(core_scratch_.hidden, 0, rows), out, columns));
  }
  const Picoseconds begin = machine_.clock.now();
  co_await on_all_cores(std::move(gated));
  co_await on_all_cores(std::move(down));
  co_return to_seconds(machine_.clock.now() - begin);
}

// Of two graphs that take turns, so that it is one after another graph, as in a layer.
Task<double> TieredExperts::seconds_of_launch(const StaticGroup* group) {
  ComputeUnit& unit = *options_.units[group->unit];
  const std::uint32_t rows = group->rows();
  const View x = measured_rows(rows), out = measured_rows(rows);
  struct Loaded {  // and unloaded whatever happens
    ComputeUnit& unit;
    std::vector<Graph> graphs;
    ~Loaded() {
      for (const Graph& graph : graphs) unit.unload(graph);
    }
  } loaded{unit, {}};
  std::vector<Graph>& graphs = loaded.graphs;
  Picoseconds last{0};
  for (int i = 0; i < 2; ++i) {
    Result<Graph> graph = co_await unit.load(spec_of(0, *group));
    if (!graph.ok()) throw RunError(graph.status().message);
    graphs.push_back(graph.value());
  }
  for (const Graph& graph : graphs) {
    Bindings bindings;
    for (std::uint32_t i = 0; i < group->experts.size(); ++i) {
      bindings.views.push_back(part_of_pool(x, i * group->capacity, group->capacity));
      bindings.views.push_back(part_of_pool(out, i * group->capacity, group->capacity));
    }
    const Picoseconds begin = machine_.clock.now();
    const RunResult result = co_await unit.launch(graph, std::move(bindings));
    result.status.or_throw();
    last = machine_.clock.now() - begin;
  }
  co_return to_seconds(last);
}

// Through the machine, as everything that depends on time is learned: the same code asks a host and a simulated device.
Task<ExpertPrices> TieredExperts::measure_prices() {
  std::uint32_t least = ~0u, most = 0, experts = 1;
  for (const LayerLoad& load : options_.layers.loads) {
    least = std::min(least, *std::min_element(load.capacity.begin(), load.capacity.end()));
    most = std::max(most, *std::max_element(load.capacity.begin(), load.capacity.end()));
    experts = std::min(options_.layers.rule.group, static_cast<std::uint32_t>(load.capacity.size()));
  }
  ExpertPrices prices;
  const std::uint32_t rows = std::min(most, options_.max_rows);
  const double one_row = co_await seconds_on_cores(1), many = co_await seconds_on_cores(rows);
  prices.core_row = rows > 1 ? std::max(many - one_row, 0.0) / (rows - 1) : 0;
  prices.core_expert = std::max(one_row - prices.core_row, 0.0);
  StaticGroup lone{{0}, most, 0, 0, false}, full = lone;
  full.experts.assign(experts, 0);
  for (std::uint32_t i = 0; i < experts; ++i) full.experts[i] = static_cast<std::uint16_t>(i);
  const double of_lone = co_await seconds_of_launch(&lone), of_full = co_await seconds_of_launch(&full);
  full.capacity = least;
  const double of_small = least < most ? co_await seconds_of_launch(&full) : of_full;
  const double expert = experts > 1 ? std::max(of_full - of_lone, 0.0) / (experts - 1) : of_lone;
  prices.per_row = least < most ? std::max(of_full - of_small, 0.0) / experts / (most - least) : 0;
  prices.per_expert = std::max(expert - prices.per_row * most, 0.0);
  prices.launch = std::max(of_lone - expert, 0.0);
  co_return prices;
}

}  // namespace vitro
