// GraphCache: runs chains on any unit. One with static graphs gets a graph for each form of chain that it meets: shapes,
// operators and slices are the graph's; memory, rows and the place in the model are bound at launch, so that one graph serves
// every layer (PowerInfer-2, sections 4.1.3 and 5: static graphs for common batch sizes, made ahead of time).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/machine/signal.hpp"
#include "engine/parts/placement/session_memory.hpp"

namespace vitro {

// Most operands that a launch binds: a chain with more has to be cut.
inline constexpr std::size_t kGraphOperands = 65535;

class GraphCache {
 public:
  // `beside`: of another model on the machine, whose sessions it shares; null: it has its own.
  explicit GraphCache(Machine& machine, const GraphCache* beside = nullptr)
      : machine_(machine), sessions_(beside != nullptr ? beside->sessions_ : std::make_shared<Sessions>()), loaded_(machine.executor) {}
  // Unloads its graphs. Requires: none of them is in flight.
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // As unit->run(chain). What a launch binds is mapped into a session of the unit, which opens another one when a session is full.
  // Throws RunError when the unit can not load the graph, or when one launch needs more than a session maps.
  Task<RunResult> run(ComputeUnit* unit, Chain chain);

  // Loads the graph of such a chain, so that run() need not wait for it. Operands need shapes, not memory.
  Task<void> prepare(ComputeUnit* unit, Chain chain);

  std::size_t graphs() const { return graphs_.size(); }
  // What bound memory comes to, for results: a line for each unit that needed more than one session.
  std::vector<std::string> notes() const;
  Bytes mapped() const;  // by all sessions of accelerators that have a limit; what is in several of them counts for each

 private:
  using Sessions = std::map<std::string, SessionMemory>;  // of units whose sessions have a limit, by name
  struct Entry {
    ComputeUnit* unit = nullptr;
    std::optional<Graph> graph;  // none: on its way
  };
  // What chains have in common that may share a graph.
  struct Form {
    std::vector<Op> operators;
    std::string shapes;
    friend auto operator<=>(const Form&, const Form&) = default;
  };
  static Form form_of(const Chain& chain);
  Task<Graph> graph_of(ComputeUnit* unit, const Chain* chain);
  void map_operands(const UnitCaps& caps, const Chain& chain);

  Machine& machine_;
  std::map<std::pair<UnitId, Form>, Entry> graphs_;
  std::shared_ptr<Sessions> sessions_;
  Signal loaded_;
};

}  // namespace vitro
