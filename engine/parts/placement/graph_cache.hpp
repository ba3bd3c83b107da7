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
#include "engine/machine/run_together.hpp"
#include "engine/machine/signal.hpp"
#include "engine/parts/placement/session_memory.hpp"

namespace vitro {

// Work for one unit. `step`: of which, for traces.
struct UnitChain {
  ComputeUnit* unit = nullptr;
  Chain chain;
  std::string step = {};
};

// What became of launches whose graphs were, or were not, there.
struct GraphLoads {
  std::uint64_t loads = 0, waits = 0;  // graphs that were loaded; launches that waited for theirs
  Picoseconds waited{0};               // by all of those
};

// Most operands that a launch binds: a chain with more has to be cut.
inline constexpr std::size_t kGraphOperands = 65535;

class GraphCache {
 public:
  // `beside`: of another model on the machine, whose sessions it shares; null: it has its own. `built`: shapes are known when a model is
  // installed; else a graph is built before it is loaded.
  explicit GraphCache(Machine& machine, const GraphCache* beside = nullptr, bool built = true)
      : machine_(machine),
        sessions_(beside != nullptr ? beside->sessions_ : std::make_shared<Sessions>()),
        built_(built),
        loaded_(machine.executor) {}
  // Unloads its graphs. Requires: none of them is in flight.
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // From now on `core` computes what no accelerator has: the parts of operators that are fused elsewhere (Fuse), between the graphs of what
  // stands before and behind them. Not null.
  void help_with(ComputeUnit* core) { core_ = core; }

  // As unit->run(chain). What a launch binds is mapped into a session of the unit, which opens another one when a session is full.
  // Throws RunError when the unit can not load the graph, or when one launch needs more than a session maps.
  Task<RunResult> run(ComputeUnit* unit, Chain chain);
  // Adds the chain to `runs` if all is there that it needs. False: a graph has to be loaded, or a core has to help, and the chain is left
  // for run().
  bool add_to(RunTogether& runs, ComputeUnit& unit, Chain& chain);
  // Chains on such a unit need no graph and no help. A caller with thousands of chains submits them itself, which saves a coroutine each.
  static bool needs_no_graph(const ComputeUnit& unit) { return unit.caps().kind == UnitKind::core && !unit.caps().static_graphs; }

  // Loads the graph of such a chain, so that run() need not wait for it. Operands need shapes, not memory. Throws RunError as run() does.
  // `step`: that will launch it, for traces.
  Task<void> prepare(ComputeUnit* unit, Chain chain, std::string step);
  // Decides now that prepare() of such a chain will come: the decision log does not depend on how long loads before it take. run() does
  // not wait for what has not begun, but loads it itself. Requires: a unit with static graphs.
  void expect(ComputeUnit* unit, const Chain& chain);
  // Unloads all graphs. Requires: none of them is in flight.
  void clear();

  std::size_t graphs() const { return graphs_.size(); }  // loaded, on their way or expected
  const GraphLoads& loads() const { return loads_; }
  // What bound memory comes to, for results: a line for each unit that needed more than one session.
  std::vector<std::string> notes() const;
  Bytes mapped() const;  // by all sessions of accelerators that have a limit; what is in several of them counts for each

 private:
  using Sessions = std::map<std::string, SessionMemory>;  // of units whose sessions have a limit, by name
  struct Entry {
    ComputeUnit* unit = nullptr;
    bool begun = false;
    std::optional<Graph> graph;  // none: expected, or on its way
  };
  // What chains have in common that may share a graph.
  struct Form {
    std::vector<Op> operators;
    std::string shapes;
    friend auto operator<=>(const Form&, const Form&) = default;
  };
  using Key = std::pair<UnitId, Form>;
  static Form form_of(const Chain& chain);
  bool needs_help(const ComputeUnit& unit, const Chain& chain) const;
  std::vector<UnitChain> parts_of(ComputeUnit* unit, Chain chain) const;
  Task<RunResult> run_whole(ComputeUnit* unit, Chain chain);
  Task<RunResult> run_in_parts(ComputeUnit* unit, Chain chain);
  bool add(const Key& key, ComputeUnit* unit, const Chain& chain);
  bool there(const Key& key) const;
  Task<Graph> graph_of(const Key* key, ComputeUnit* unit, const Chain* chain, const std::string* ahead_of);
  void map_operands(const UnitCaps& caps, const Chain& chain);

  Machine& machine_;
  std::map<Key, Entry> graphs_;
  GraphLoads loads_;
  std::shared_ptr<Sessions> sessions_;
  ComputeUnit* core_ = nullptr;
  bool built_;
  Signal loaded_;
};

}  // namespace vitro
