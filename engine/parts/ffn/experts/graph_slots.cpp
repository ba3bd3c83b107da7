#include "engine/parts/ffn/experts/graph_slots.hpp"

#include <utility>

namespace vitro {

GraphSlots::GraphSlots(Machine& machine, ComputeUnit& unit, std::uint32_t slots, std::function<GraphSpec(std::size_t)> spec)
    : machine_(machine), unit_(unit), slots_(slots), spec_(std::move(spec)), changed_(machine.executor), scope_(machine.executor) {
  VITRO_CHECK(slots_ > 0, "graphs take turns in no slot");
}

GraphSlots::~GraphSlots() {
  for (const auto& [number, slot] : held_) {
    if (slot.graph) unit_.unload(*slot.graph);
  }
}

// Layers come in a circle, so the graph that was used last is needed last. One that is wanted next stays.
bool GraphSlots::make_room() {
  if (held_.size() < slots_) return true;
  auto last = held_.end();
  for (auto slot = held_.begin(); slot != held_.end(); ++slot) {
    if (slot->second.takers > 0 || slot->second.wanted || !slot->second.graph) continue;
    if (last == held_.end() || slot->second.used > last->second.used) last = slot;
  }
  if (last == held_.end()) return false;
  machine_.clock.charge(PolicyWork::submit, 1);
  unit_.unload(*last->second.graph);
  held_.erase(last);
  ++evictions_;
  return true;
}

void GraphSlots::start(std::size_t graph) {
  held_.emplace(graph, Slot{});
  ++loads_;
  machine_.clock.charge(PolicyWork::submit, 1);
  scope_.spawn(load(graph));
}

Task<void> GraphSlots::load(std::size_t graph) {
  Result<Graph> loaded = co_await unit_.load(spec_(graph));
  Slot& slot = held_.at(graph);
  if (loaded.ok())
    slot.graph = loaded.value();
  else
    slot.error = loaded.status().message;
  changed_.notify();
}

bool GraphSlots::begin(std::size_t graph) {
  if (const auto slot = held_.find(graph); slot != held_.end()) {
    slot->second.wanted = true;
    return true;
  }
  if (!make_room()) return false;
  start(graph);
  return true;
}

Task<Graph> GraphSlots::take(std::size_t graph) {
  while (!held_.contains(graph)) {
    if (!begin(graph)) {
      // What came ahead of a use that was not this one gives way.
      for (auto& [number, slot] : held_) {
        if (slot.takers == 0) slot.wanted = false;
      }
      if (!begin(graph)) co_await changed_.changed();
    }
  }
  ++held_.at(graph).takers;
  while (!held_.at(graph).graph && held_.at(graph).error.empty()) co_await changed_.changed();
  Slot& slot = held_.at(graph);
  if (slot.graph) co_return *slot.graph;
  std::string error = slot.error;
  if (--slot.takers == 0) held_.erase(graph);
  throw RunError(std::move(error));
}

void GraphSlots::used(std::size_t graph) {
  Slot& slot = held_.at(graph);
  --slot.takers;
  slot.wanted = false;
  slot.used = ++uses_;
  changed_.notify();
}

Task<void> GraphSlots::settle() { co_await scope_.join(); }

}  // namespace vitro
