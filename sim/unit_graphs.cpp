// Graphs of a unit: which it can hold, what loading takes, and launches.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/ops/operands.hpp"
#include "engine/quant/blocks.hpp"
#include "sim/unit.hpp"

namespace vitro::sim {
namespace {

// Size of a graph's description: PowerInfer-2 4.1.3 names 10 KB for a graph of a few operators (pi2_npu_graph_size).
constexpr Bytes kGraphBytesPerCall = 2 * KiB;

std::size_t batch_of(const GraphSpec& spec) {
  return !spec.calls.empty() && spec.calls.front().batch ? spec.calls.front().batch->size() : 0;
}

// What a unit must be able to read: weights, or keys and values.
Format operand_format(const KernelCall& call) {
  if (call.in.empty()) return Format::f32;
  if (call.in[0].format == Format::q4_nibbles) return Format::q4_0;
  return reads_kv(call) ? call.in[1].format : call.in[0].format;
}

Bytes weight_bytes(const GraphSpec& spec) {
  std::set<std::pair<std::uint64_t, Bytes>> seen;
  Bytes sum = 0;
  for (const KernelCall& call : spec.calls) {
    if (!call.is<ops::Matmul, ops::Accumulate>()) continue;
    const View& weights = call.in[0];
    if (!weights.memory || seen.insert({weights.memory.id(), weights.offset}).second) {
      // As panels hold them.
      sum += weights.shape[0] * row_bytes(weights.format, weights.shape[1], std::max(weights.layout, Layout::tiled));
    }
  }
  return sum;
}

}  // namespace

void SimUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  const auto loaded = graphs_.find(graph.id);
  VITRO_CHECK(loaded != graphs_.end(), "launch of a graph that is not loaded");
  const GraphSpec& spec = loaded->second.spec;
  if (core_.model().dispatch().fixed_batch && bindings.batch && bindings.batch->size() != batch_of(spec)) {
    return reject(done, fmt::format("{} has static shapes: graph \"{}\" was built for a batch of {} rows and is launched with {}",
                                    caps_.name, spec.name, batch_of(spec), bindings.batch->size()));
  }
  if (bindings.keys > 0 && std::ranges::find(spec.keys, bindings.keys) == spec.keys.end()) {
    return reject(done, fmt::format("{}: graph \"{}\" is not enumerated for {} keys", caps_.name, spec.name, bindings.keys));
  }
  ++launches_;
  Job job;
  job.bound = std::make_unique<Chain>(bind(spec, bindings));
  job.chain = job.bound.get();
  job.graph = graph.id;
  job.on_cpu = loaded->second.on_cpu;
  job.done = &done;
  enqueue(std::move(job));
}

Bytes SimUnit::mapped_by(const GraphSpec& spec) const {
  std::set<std::uint64_t> seen;
  Bytes sum = 0;
  const auto add = [&](const View& view) {
    if (view.slot == 0 && view.memory && seen.insert(view.memory.id()).second) sum += view.memory.size();
  };
  for (const KernelCall& call : spec.calls) {
    for (const View& view : call.in) add(view);
    for (const View& view : call.out) add(view);
  }
  return sum;
}

Status SimUnit::refusal(const GraphSpec& spec) const {
  const bool fixed = core_.model().dispatch().fixed_batch;
  if (fixed && batch_of(spec) == 0) {
    return {Code::unsupported_shape, fmt::format("{} has static shapes: graph \"{}\" names no batch", caps_.name, spec.name)};
  }
  for (const KernelCall& call : spec.calls) {
    std::string why = core_.model().objection(to_string(call.op), to_string(operand_format(call)));
    if (why.empty() && fixed && call.rows) why = "static shapes: it takes no rows that are chosen at run time";
    if (!why.empty()) return {Code::unsupported_shape, fmt::format("{}: graph \"{}\": {}", caps_.name, spec.name, why)};
  }
  return {};
}

std::string SimUnit::beyond_limits(const GraphSpec& spec) const {
  const hw::DispatchCosts& limits = core_.model().dispatch();
  if (const Bytes weights = weight_bytes(spec); limits.graph_weights > 0 && weights > limits.graph_weights) {
    return fmt::format("graph \"{}\" has weights of {} and one graph holds {}", spec.name, format_bytes(weights),
                       format_bytes(limits.graph_weights));
  }
  if (limits.graph_count > 0 && graphs_.size() >= limits.graph_count) {
    return fmt::format("graph \"{}\" came when {} were loaded, as many as there may be", spec.name, limits.graph_count);
  }
  for (const KernelCall& call : spec.calls) {
    if (!call.is<ops::Matmul>() || limits.graph_axis == 0) continue;
    const std::uint32_t longest = std::max(call.in[0].shape[0], call.in[0].shape[1]);
    if (longest > limits.graph_axis) {
      return fmt::format("graph \"{}\" has an axis of {} elements and the longest is {}", spec.name, longest, limits.graph_axis);
    }
  }
  return {};
}

Task<Result<Graph>> SimUnit::load(GraphSpec spec) {
  const Bytes size = spec.calls.size() * kGraphBytesPerCall;
  Status refused = refusal(spec);
  if (refused.code != Code::ok) co_return Result<Graph>(std::move(refused));
  Loaded loaded{std::move(spec), 0, false};
  if (std::string why = beyond_limits(loaded.spec); !why.empty() && fallback_.possible()) {
    loaded.on_cpu = true;
    if (fallbacks_++ == 0) first_fallback_ = why;
  } else if (!why.empty()) {
    co_return Result<Graph>(Status{Code::over_budget, fmt::format("{}: {}, and there is no CPU core to run it", caps_.name, why)});
  }
  loaded.mapped = mapped_by(loaded.spec) + size;
  if (caps_.session_limit > 0 && mapped_ + loaded.mapped > caps_.session_limit) {
    co_return Result<Graph>(Status{
        Code::over_budget, fmt::format("{}: graph \"{}\" would map {} beside {}, and a session holds {}", caps_.name, loaded.spec.name,
                                       format_bytes(loaded.mapped), format_bytes(mapped_), format_bytes(caps_.session_limit))});
  }
  mapped_ += loaded.mapped;
  const hw::DispatchCosts& dispatch = core_.model().dispatch();
  const Picoseconds ready = s_.executor.now() + dispatch.load + (loaded.spec.built ? Picoseconds(0) : dispatch.build);
  co_await sleep_until(s_.executor, ready);
  const Graph graph{next_graph_++, size};
  graphs_.emplace(graph.id, std::move(loaded));
  co_return Result<Graph>(graph);
}

void SimUnit::unload(Graph graph) {
  const auto loaded = graphs_.find(graph.id);
  VITRO_CHECK(loaded != graphs_.end(), "unload of a graph that is not loaded");
  mapped_ -= loaded->second.mapped;
  graphs_.erase(loaded);
}

}  // namespace vitro::sim
