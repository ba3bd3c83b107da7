#include "engine/parts/placement/graph_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace vitro {
namespace {

std::int16_t first_layer(const Chain& chain) {
  const auto found = std::find_if(chain.begin(), chain.end(), [](const KernelCall& call) { return call.layer >= 0; });
  return found == chain.end() ? std::int16_t{-1} : found->layer;
}

// The one expert that all calls belong to; -1: there is none, or several.
std::int16_t only_expert(const Chain& chain) {
  const std::int16_t expert = chain.front().expert;
  return std::all_of(chain.begin(), chain.end(), [&](const KernelCall& call) { return call.expert == expert; }) ? expert : std::int16_t{-1};
}

template <class T>
void append(std::string& form, const T& value) {
  form.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& form, const View& view) {
  append(form, view.format);
  append(form, view.layout);
  // Tables of indices grow with the sequence: their length is data, not shape.
  if (view.format != Format::index32) append(form, view.shape);
}

}  // namespace

GraphCache::Form GraphCache::form_of(const Chain& chain) {
  Form whole;
  std::string& form = whole.shapes;
  const std::int16_t layer = first_layer(chain), expert = only_expert(chain);
  for (const KernelCall& call : chain) {
    whole.operators.push_back(call.op);
    append(form, call.variant);
    append(form, call.method);
    append(form, call.slice);
    append(form, call.layer < 0 ? -1 : call.layer - layer);
    append(form, expert < 0 ? call.expert : std::int16_t{0});
    append(form, call.rows ? call.rows->size() : ~std::size_t{0});
    append(form, call.row_offsets != nullptr);
    append(form, call.batch ? call.batch->size() : 0);
    append(form, call.in.size());
    for (const View& view : call.in) append(form, view);
    for (const View& view : call.out) append(form, view);
  }
  return whole;
}

namespace {

std::string name_of(const Chain& chain) {
  return fmt::format("{} to {}, batch {}", to_string(chain.front().op), to_string(chain.back().op),
                     chain.front().batch ? chain.front().batch->size() : 0);
}

// What fused operators are made of, of which static graphs and GPUs have the whole alone, and inputs put into another order.
bool only_cores_have(const KernelCall& call) {
  if (call.is<ops::Gather>() && call.get<ops::Gather>().columns) return true;
  return call.is<ops::Move, ops::InverseRms, ops::ScaleRows, ops::AttentionScores, ops::AttentionWeights, ops::AttentionValues>();
}

GraphSpec spec_of(const Chain& chain, bool built) {
  GraphSpec spec;
  spec.calls = chain;
  spec.built = built;
  spec.name = name_of(chain);
  std::size_t slot = 0;
  const auto bound_at_launch = [&slot](View& view) {
    view.memory = Lease();
    view.offset = 0;
    view.slot = static_cast<std::uint16_t>(++slot);
  };
  for (KernelCall& call : spec.calls) {
    for (View& view : call.in) bound_at_launch(view);
    for (View& view : call.out) bound_at_launch(view);
  }
  VITRO_CHECK(slot <= std::numeric_limits<decltype(View::slot)>::max(), "a graph has more operands than there are slots");
  return spec;
}

Bindings bindings_of(Chain chain) {
  Bindings bindings;
  bindings.batch = chain.front().batch;
  bindings.layer = first_layer(chain);
  bindings.expert = only_expert(chain);
  for (KernelCall& call : chain) {
    std::move(call.in.begin(), call.in.end(), std::back_inserter(bindings.views));
    std::move(call.out.begin(), call.out.end(), std::back_inserter(bindings.views));
    if (call.rows) bindings.choices.push_back({std::move(call.rows), std::move(call.row_offsets)});
  }
  return bindings;
}

}  // namespace

GraphCache::~GraphCache() { clear(); }

void GraphCache::clear() {
  for (auto& [key, entry] : graphs_) {
    if (entry.graph) entry.unit->unload(*entry.graph);
  }
  graphs_.clear();
}

bool GraphCache::add(const Key& key, ComputeUnit* unit, const Chain& chain) {
  const bool added = graphs_.try_emplace(key, Entry{unit, false, {}}).second;
  if (added) machine_.trace.decision("graph", name_of(chain), unit->caps().name);
  return added;
}

void GraphCache::expect(ComputeUnit* unit, const Chain& chain) {
  for (const UnitChain& part : parts_of(unit, chain)) {
    if (part.unit == unit) add({unit->caps().id, form_of(part.chain)}, unit, part.chain);
  }
}

bool GraphCache::needs_help(const ComputeUnit& unit, const Chain& chain) const {
  return core_ != nullptr && unit.caps().kind != UnitKind::core && std::ranges::any_of(chain, only_cores_have);
}

// In order: what the unit has, and what the core that helps it computes.
std::vector<UnitChain> GraphCache::parts_of(ComputeUnit* unit, Chain chain) const {
  std::vector<UnitChain> parts;
  if (!needs_help(*unit, chain)) {
    parts.push_back({unit, std::move(chain)});
    return parts;
  }
  for (KernelCall& call : chain) {
    ComputeUnit* const of = only_cores_have(call) ? core_ : unit;
    if (parts.empty() || parts.back().unit != of) parts.push_back({of, {}});
    parts.back().chain.push_back(std::move(call));
  }
  return parts;
}

bool GraphCache::there(const Key& key) const {
  const auto known = graphs_.find(key);
  return known != graphs_.end() && known->second.graph.has_value();
}

Task<Graph> GraphCache::graph_of(const Key* of, ComputeUnit* unit, const Chain* chain, const std::string* ahead_of) {
  const Key& key = *of;
  while (!add(key, unit, *chain) && graphs_[key].begun) {
    if (there(key)) co_return *graphs_[key].graph;
    co_await loaded_.changed();
  }
  graphs_[key].begun = true;
  const Picoseconds begin = machine_.clock.now();
  try {
    const Result<Graph> graph = co_await unit->load(spec_of(*chain, built_));
    if (!graph.ok()) throw RunError(graph.status().message);
    graphs_[key].graph = graph.value();
  } catch (...) {
    graphs_.erase(key);  // whoever waits for it tries, and fails, on its own
    loaded_.notify();
    throw;
  }
  ++loads_.loads;
  loaded_.notify();
  if (machine_.trace.enabled()) {
    machine_.trace.span(machine_.trace.track("policy", "graphs"), begin, machine_.clock.now(),
                        fmt::format("load {} on {}", name_of(*chain), unit->caps().name),
                        ahead_of == nullptr ? "needed by a launch" : ahead_of->empty() ? "ahead" : "ahead, for " + *ahead_of);
  }
  co_return *graphs_[key].graph;
}

Task<RunResult> GraphCache::run(ComputeUnit* unit, Chain chain) {
  return needs_help(*unit, chain) ? run_in_parts(unit, std::move(chain)) : run_whole(unit, std::move(chain));
}

Task<RunResult> GraphCache::run_in_parts(ComputeUnit* unit, Chain chain) {
  RunResult all;
  bool first = true;  // who calls has paid for one dispatch
  std::vector<UnitChain> parts = parts_of(unit, std::move(chain));
  for (UnitChain& part : parts) {
    if (!std::exchange(first, false)) machine_.clock.charge(PolicyWork::submit, 1);
    RunResult result = co_await run_whole(part.unit, std::move(part.chain));
    if (!result.status.ok()) all.status = std::move(result.status);
    std::move(result.outcomes.begin(), result.outcomes.end(), std::back_inserter(all.outcomes));
    if (!all.status.ok()) break;
  }
  co_return all;
}

Task<RunResult> GraphCache::run_whole(ComputeUnit* unit, Chain chain) {
  if (!unit->caps().static_graphs) co_return co_await unit->run(std::move(chain));
  const Key key{unit->caps().id, form_of(chain)};
  const bool waits = !there(key);
  const Picoseconds begin = machine_.clock.now();
  const Graph graph = co_await graph_of(&key, unit, &chain, nullptr);
  if (waits) {
    ++loads_.waits;
    loads_.waited += machine_.clock.now() - begin;
  }
  map_operands(unit->caps(), chain);
  Bindings bindings = bindings_of(std::move(chain));
  co_return co_await unit->launch(graph, std::move(bindings));
}

bool GraphCache::add_to(RunTogether& runs, ComputeUnit& unit, Chain& chain) {
  if (needs_help(unit, chain)) return false;
  if (!unit.caps().static_graphs) {
    runs.add(unit, std::move(chain));
    return true;
  }
  const auto known = graphs_.find({unit.caps().id, form_of(chain)});
  if (known == graphs_.end() || !known->second.graph) return false;
  map_operands(unit.caps(), chain);
  runs.add(unit, *known->second.graph, bindings_of(std::move(chain)));
  return true;
}

void GraphCache::map_operands(const UnitCaps& caps, const Chain& chain) {
  if (caps.session_limit == 0) return;
  SessionMemory& memory = sessions_->try_emplace(caps.name, caps.session_limit).first->second;
  const std::size_t before = memory.sessions();
  if (!memory.place(chain)) {
    throw RunError(fmt::format("{}: the operands from {} to {} of layer {} are larger than the {} that one session can map", caps.name,
                               to_string(chain.front().op), to_string(chain.back().op), first_layer(chain),
                               format_bytes(caps.session_limit)));
  }
  if (memory.sessions() > before) machine_.trace.decision("session", fmt::format("{}", memory.sessions()), caps.name);
}

std::vector<std::string> GraphCache::notes() const {
  std::vector<std::string> notes;
  for (const auto& [unit, memory] : *sessions_) {
    if (memory.sessions() < 2) continue;
    notes.push_back(fmt::format("{}: {} sessions map {}, what is in several of them counted for each", unit, memory.sessions(),
                                format_bytes(memory.mapped())));
  }
  return notes;
}

Bytes GraphCache::mapped() const {
  Bytes mapped = 0;
  for (const auto& [unit, memory] : *sessions_) mapped += memory.mapped();
  return mapped;
}

Task<void> GraphCache::prepare(ComputeUnit* unit, Chain chain, std::string step) {
  if (!unit->caps().static_graphs) co_return;
  const std::vector<UnitChain> parts = parts_of(unit, std::move(chain));
  for (const UnitChain& part : parts) {
    if (part.unit != unit) continue;
    const Key key{unit->caps().id, form_of(part.chain)};
    co_await graph_of(&key, unit, &part.chain, &step);
  }
}

}  // namespace vitro
