#include "engine/parts/placement/offload_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

// Calls f(view) for what a launch binds: of a product its activations and its result, of attention all operands.
template <class F>
void for_each_bound(Chain& chain, F f) {
  for (KernelCall& call : chain) {
    const bool product = call.is<ops::Matmul>();
    for (std::size_t i = product ? 1 : 0; i < (product ? 2 : call.in.size()); ++i) f(call.in[i]);
    f(call.out[0]);
  }
}

}  // namespace

OffloadUnit::OffloadUnit(Machine& machine, ComputeUnit& core, ComputeUnit& accelerator, Offloaded what, std::vector<std::uint32_t> keys)
    : machine_(machine),
      core_(core),
      accelerator_(accelerator),
      what_(what),
      keys_(std::move(keys)),
      loaded_(machine.executor),
      scope_(machine.executor) {}

OffloadUnit::~OffloadUnit() {
  for (const auto& [key, graph] : graphs_) accelerator_.unload(graph);
}

OffloadUnit::Shape OffloadUnit::shape_of(const KernelCall& call) {
  const bool attends = call.is<ops::Attention>();
  const View &kept = call.in[attends ? 1 : 0], &x = call.in[call.is<ops::Matmul>() ? 1 : 0];
  return {kind_of(call.op), call.layer, call.expert, kept.memory.id(), kept.offset, call.slice.first, call.slice.count, x.shape[0]};
}

bool OffloadUnit::takes(const KernelCall& call) const {
  const bool product = call.is<ops::Matmul>() && call.layer >= 0 && call.rows == nullptr && call.row_offsets == nullptr;
  // Keys and values in another form are a core's to write, and staged for attention.
  const bool append = call.is<ops::KvAppend>() && call.out[0].format == Format::f16;
  const bool block = what_ == Offloaded::attention && (call.is<ops::Attention, ops::Rope>() || append);
  const bool attention = call.is<ops::Attention>() && variant::attends_in_fp16(call.variant);
  return (product || block || attention) && !refused_.contains(shape_of(call));
}

void OffloadUnit::submit(const Chain& chain, Completion<RunResult>& done) { scope_.spawn(run(&chain, &done)); }

void OffloadUnit::submit(const Graph&, const Bindings&, Completion<RunResult>& done) {
  RunResult result;
  result.status = {Code::unsupported_shape, "a core that offloads runs chains only"};
  done.complete(std::move(result));
}

// A graph is one step's work on one batch: the rows that are sampled are another one.
std::size_t OffloadUnit::end_of_part(const Chain& chain, std::size_t begin) const {
  const bool offload = takes(chain[begin]);
  std::size_t end = begin;
  while (end < chain.size() && takes(chain[end]) == offload && (!offload || chain[end].batch == chain[begin].batch)) ++end;
  return end;
}

Task<void> OffloadUnit::prepare(Chain chain) {
  for (std::size_t begin = 0, end = 0; begin < chain.size(); begin = end) {
    end = end_of_part(chain, begin);
    if (!takes(chain[begin])) continue;
    const Chain part(chain.begin() + static_cast<std::ptrdiff_t>(begin), chain.begin() + static_cast<std::ptrdiff_t>(end));
    co_await load_part(&part);
  }
}

Task<void> OffloadUnit::run(const Chain* chain, Completion<RunResult>* done) {
  RunResult all;
  try {
    for (std::size_t begin = 0, end = 0; begin < chain->size() && all.status.ok(); begin = end) {
      const bool offload = takes((*chain)[begin]);
      end = end_of_part(*chain, begin);
      Chain part(chain->begin() + static_cast<std::ptrdiff_t>(begin), chain->begin() + static_cast<std::ptrdiff_t>(end));
      co_await run_part(std::move(part), offload, &all);
    }
  } catch (...) {
    all.error = std::current_exception();
  }
  done->complete(std::move(all));
}

Task<void> OffloadUnit::run_part(Chain part, bool offload, RunResult* all) {
  if (offload) co_return co_await run_offloaded(std::move(part), all);
  RunResult result = co_await core_.run(std::move(part));
  if (!result.status.ok()) all->status = std::move(result.status);
  std::move(result.outcomes.begin(), result.outcomes.end(), std::back_inserter(all->outcomes));
}

std::vector<OffloadUnit::Shape> OffloadUnit::key_of(const Chain& part) {
  std::vector<Shape> key;
  for (const KernelCall& call : part) key.push_back(shape_of(call));
  return key;
}

// A graph that is being loaded, until it is there, is refused, or its load ends the run.
struct OffloadUnit::Coming {
  Coming(OffloadUnit& of, const std::vector<Shape>& graph) : unit(of), key(graph) { unit.coming_.insert(key); }
  Coming(const Coming&) = delete;
  Coming& operator=(const Coming&) = delete;
  ~Coming() {
    unit.coming_.erase(key);
    unit.loaded_.notify();
  }
  OffloadUnit& unit;
  const std::vector<Shape>& key;
};

Task<bool> OffloadUnit::load_part(const Chain* part) {
  const std::vector<Shape> key = key_of(*part);
  while (coming_.contains(key)) co_await loaded_.changed();
  if (graphs_.contains(key)) co_return true;
  if (part->size() == 1 && refused_.contains(key.front())) co_return false;
  const Coming coming(*this, key);
  GraphSpec spec;
  spec.name = fmt::format("layer {} {}", part->front().layer, what_ == Offloaded::attention ? "attention" : "products");
  spec.built = true;  // shapes are known when a model is installed
  spec.calls = *part;
  if (std::ranges::any_of(*part, [](const KernelCall& call) { return call.is<ops::Attention>(); })) spec.keys = keys_;
  std::size_t slot = 0;
  for_each_bound(spec.calls, [&](View& view) {
    view.slot = static_cast<std::uint16_t>(++slot);
    view.memory = {};
  });
  VITRO_CHECK(slot <= std::numeric_limits<decltype(View::slot)>::max(), "a graph has more operands than there are slots");
  const Result<Graph> graph = co_await accelerator_.load(std::move(spec));
  if (graph.ok()) {
    graphs_.emplace(key, graph.value());
    ++loads_.loads;
  } else if (part->size() == 1) {
    refused_.insert(key.front());
    machine_.trace.decision("keep on core", fmt::format("layer {} {}", part->front().layer, to_string(part->front().op)),
                            graph.status().message);
  }
  co_return graph.ok();
}

Task<void> OffloadUnit::run_offloaded(Chain part, RunResult* all) {
  const bool waits = !graphs_.contains(key_of(part));
  const Picoseconds begin = machine_.clock.now();
  const bool loaded = co_await load_part(&part);
  if (waits) {
    ++loads_.waits;
    loads_.waited += machine_.clock.now() - begin;
  }
  if (!loaded) {
    if (part.size() == 1) co_return co_await run_part(std::move(part), false, all);
    for (const KernelCall& call : part) {
      const bool offload = takes(call);
      Chain alone(1, call);
      co_await run_part(std::move(alone), offload, all);
    }
    co_return;
  }
  const auto attention = std::ranges::find_if(part, [](const KernelCall& call) { return call.is<ops::Attention>(); });
  if (keys_.empty() || attention == part.end()) co_return co_await launch_part(std::move(part), 0, all);
  const auto index = static_cast<std::size_t>(attention - part.begin());
  co_await run_enumerated(std::move(part), index, all);
}

// In the smallest shape that holds what the rows see.
Task<void> OffloadUnit::run_enumerated(Chain part, std::size_t attention, RunResult* all) {
  const KernelCall& call = part[attention];
  const std::uint32_t window = call.get<ops::Attention>().window;
  std::uint32_t needed = 1;
  std::uint64_t seen = 0;
  for (const SeqPos& row : *call.batch) {
    needed = std::max(needed, row.position + 1);
    seen += window > 0 ? std::min(window, row.position + 1) : row.position + 1;
  }
  const auto shape = std::ranges::lower_bound(keys_, needed);
  if (shape == keys_.end()) {
    machine_.trace.decision("keep on core", fmt::format("layer {} attention", call.layer),
                            fmt::format("{} keys are beyond the {} of its largest graph", needed, keys_.back()));
    co_return co_await run_part(std::move(part), false, all);
  }
  const std::uint64_t pairs = call.batch->size() * std::uint64_t{*shape};
  key_counts_.pairs += pairs;
  key_counts_.masked += pairs - seen;
  co_await launch_part(std::move(part), *shape, all);
}

Task<void> OffloadUnit::launch_part(Chain part, std::uint32_t keys, RunResult* all) {
  const Graph graph = graphs_.at(key_of(part));
  Bindings bindings;
  bindings.keys = keys;
  bindings.batch = part.front().batch;
  for_each_bound(part, [&](const View& view) { bindings.views.push_back(view); });
  machine_.clock.charge(PolicyWork::submit, 1);
  RunResult result = co_await accelerator_.launch(graph, std::move(bindings));
  if (!result.status.ok()) all->status = std::move(result.status);
}

}  // namespace vitro
