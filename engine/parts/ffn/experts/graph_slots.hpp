// Graphs that take turns on a unit: one is loaded ahead of its use, in the place of one that has been used (NPUMoE 4.3).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "engine/machine/machine.hpp"
#include "engine/machine/signal.hpp"
#include "engine/machine/task_scope.hpp"

namespace vitro {

// Lives on the policy thread, and dies when nothing is in flight. Graphs have numbers; what one is made of is asked when it is loaded.
class GraphSlots {
 public:
  // slots: graphs that are loaded or on their way at a time, at least 1.
  GraphSlots(Machine& machine, ComputeUnit& unit, std::uint32_t slots, std::function<GraphSpec(std::size_t)> spec);
  ~GraphSlots();  // unloads its graphs

  // Asked in the order of use: what is named first stays. Begins to load a graph, unless it is there, where a slot is free or has a graph
  // that nobody named since it was used. False: there is none.
  bool begin(std::size_t graph);
  // The graph, when it is loaded; loads it where nobody began to. Nobody else evicts it until used(). Throws RunError where the unit
  // refuses. Two that wait at the same time need a slot each, or the first has to come to used().
  Task<Graph> take(std::size_t graph);
  void used(std::size_t graph);
  // Waits for what begin() began.
  Task<void> settle();

  std::uint64_t loads() const { return loads_; }
  std::uint64_t evictions() const { return evictions_; }

 private:
  struct Slot {
    std::optional<Graph> graph;  // none: on its way
    std::string error;           // why it did not come
    std::uint32_t takers = 0;    // that wait for it or use it
    bool wanted = true;          // begin() named it, and it has not been used since
    std::uint64_t used = 0;      // when it was last, counted in uses
  };
  void start(std::size_t graph);
  bool make_room();
  Task<void> load(std::size_t graph);

  Machine& machine_;
  ComputeUnit& unit_;
  const std::uint32_t slots_;
  std::function<GraphSpec(std::size_t)> spec_;
  std::map<std::size_t, Slot> held_;
  Signal changed_;
  TaskScope scope_;
  std::uint64_t loads_ = 0, evictions_ = 0, uses_ = 0;
};

}  // namespace vitro
