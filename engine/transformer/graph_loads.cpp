// Graphs of units with static shapes, loaded while the step before the one that launches them runs (PowerInfer-2, section 4.1.3), or before
// the first token where a plan says so (section 5).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/graph/operator_graph.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {
namespace {

const OffloadUnit* as_offload(const ComputeUnit& unit) { return dynamic_cast<const OffloadUnit*>(&unit); }

// Units that hold few graphs keep them for what is launched. A core that offloads has graphs with weights in them, which fill a session:
// it loads those of a size that will come.
bool may_load(const ComputeUnit& unit, bool sure) {
  const OffloadUnit* const offload = as_offload(unit);
  const UnitCaps& caps = offload != nullptr ? offload->accelerator().caps() : unit.caps();
  return caps.static_graphs && caps.graph_count == 0 && (sure || offload == nullptr);
}

}  // namespace

// What the placement lists is loaded ahead of decode steps, and nothing else of them.
bool Transformer::loads_ahead(const StepSize& size) const {
  if (options_.graphs.loading == GraphLoading::needed || options_.adapters != nullptr || !residency_.stays()) return false;
  if (size.rows == 0 || size.rows > options_.max_rows || size.sampled > options_.max_sampled) return false;
  if (options_.graphs.loading == GraphLoading::ahead || !size.decodes) return true;
  return std::ranges::any_of(options_.graphs.listed, [&](const StepGraphs& graphs) { return graphs.batch == size.sequences; });
}

std::string Transformer::name_of(const StepSize& size) const {
  for (const StepGraphs& graphs : options_.graphs.listed) {
    if (size.decodes && graphs.batch == size.sequences) return graphs.name;
  }
  return fmt::format("{} of {} rows", size.decodes ? "decode" : "prompt", size.rows);
}

// In the order in which the step launches them. What a router chooses is not known.
std::vector<UnitChain> Transformer::graphs_of(const StepSize& size, const StepInput& like) const {
  StepContext step;
  step.rows = rows_alone(size.rows);
  step.sampled = rows_alone(size.sampled);
  step.staged = staged_heads(size.rows);
  step.sampling = like.sampling;
  step.choose = like.choose;
  // What adds experts up has the shape of the pool that they leave: a place for each pair of a row and an expert.
  step.experts.rows.assign(std::size_t{size.rows} * config_.experts_used, 0);
  std::vector<UnitChain> all;
  const auto add = [&](ComputeUnit* unit, Chain chain) { all.push_back({unit, std::move(chain), name_of(size)}); };
  bool ffn = ffn_.stage() != nullptr;
  for (const Phase& phase : phases_of(size.rows)) {
    if (phase.whole_ffn && std::exchange(ffn, false)) {
      for (UnitChain& graph : ffn_.stage()->graphs(size.rows, size.sequences)) {
        if (may_load(*graph.unit, size.sure)) add(graph.unit, std::move(graph.chain));
      }
    }
    if (phase.whole_ffn || phase.routed) continue;
    UnitQueues queues = builder_.build(phase, step, shares_of(phase, size.rows));
    for (std::size_t unit = 0; unit < queues.size(); ++unit) {
      if (!may_load(*units_[unit], size.sure)) continue;
      for (Chain& chain : whole_chains(std::move(queues[unit]))) add(units_[unit], std::move(chain));
    }
  }
  return all;
}

void Transformer::begin_graphs(const StepInput& input) {
  const auto may = [](const ComputeUnit* unit) { return may_load(*unit, true); };
  if (std::ranges::none_of(units_, may)) return;
  std::set<std::uint32_t> sequences;
  for (const SeqPos& row : input.rows) sequences.insert(row.sequence);
  const auto rows = static_cast<std::uint32_t>(input.rows.size()), sampled = static_cast<std::uint32_t>(input.sampled.size());
  const auto of = static_cast<std::uint32_t>(sequences.size());
  std::vector<StepSize> sizes;
  std::uint32_t last = rows;  // rows of the chunk that is sampled
  if (input.chunk_rows > 0 && rows > input.chunk_rows) {
    last = (rows - 1) % input.chunk_rows + 1;
    sizes.push_back({input.chunk_rows, 0, of, input.decodes, true});
  }
  sizes.push_back({last, sampled, of, input.decodes, true});
  std::ranges::copy(input.next, std::back_inserter(sizes));
  std::vector<UnitChain> all;
  for (const StepSize& size : sizes) {
    if (!loads_ahead(size) || !sizes_begun_.insert(size).second) continue;
    for (UnitChain& graph : graphs_of(size, input)) {
      if (as_offload(*graph.unit) == nullptr) graphs_.expect(graph.unit, graph.chain);
      all.push_back(std::move(graph));
    }
  }
  if (!all.empty()) loads_.spawn(load_graphs(std::move(all)));
}

// One after the other. Who launches a graph that is not loaded yet loads it, and fails with the error of that.
Task<void> Transformer::load_graphs(std::vector<UnitChain> graphs) {
  for (UnitChain& graph : graphs) {
    try {
      if (auto* offload = dynamic_cast<OffloadUnit*>(graph.unit)) {
        co_await offload->prepare(std::move(graph.chain));
      } else {
        co_await graphs_.prepare(graph.unit, std::move(graph.chain), std::move(graph.step));
      }
    } catch (const RunError&) {
    } catch (const ConfigError&) {  // a budget without room for the graph's copies of weights
    }
  }
}

Task<void> Transformer::load_listed_graphs() {
  StepInput like;
  for (const StepGraphs& graphs : options_.graphs.listed) {
    const StepSize size = StepSize::decode(graphs.batch, true);
    if (!graphs.from_start || !loads_ahead(size) || !sizes_begun_.insert(size).second) continue;
    std::vector<UnitChain> all = graphs_of(size, like);
    co_await load_graphs(std::move(all));
  }
}

GraphLoads Transformer::graph_loads() const {
  GraphLoads all = graphs_.loads();
  for (const ComputeUnit* unit : units_) {
    const OffloadUnit* const offload = as_offload(*unit);
    if (offload == nullptr) continue;
    all.loads += offload->loads().loads;
    all.waits += offload->loads().waits;
    all.waited += offload->loads().waited;
  }
  return all;
}

}  // namespace vitro
