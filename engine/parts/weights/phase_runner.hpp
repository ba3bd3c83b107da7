// Runs one phase: the queues of all units side by side, each item behind the weights that it needs.
#pragma once
#include "engine/parts/placement/graph_cache.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

// The chains that PhaseRunner::run() hands to a unit of static graphs when no item has anything to wait for.
std::vector<Chain> whole_chains(std::vector<WorkItem> queue);

class PhaseRunner {
 public:
  PhaseRunner(Machine& machine, Residency& residency, GraphCache& graphs) : machine_(machine), residency_(residency), graphs_(graphs) {}

  // queues[i] runs on units[i]. Returns the outcomes of all calls that had one: by unit, then in queue order.
  // Throws an error of a unit, the first in time or, where weights stay, of the first unit that has one, after all have ended.
  // `taken`: null, or what each unit took from the beginning of the phase to the end of its own work; 0 of one that has none.
  Task<std::vector<Outcome>> run(UnitQueues queues, std::vector<ComputeUnit*> units, std::vector<Picoseconds>* taken = nullptr);

 private:
  // Where weights stay, each unit has one chain, and nothing happens between its start and its end. What waits for a graph is a task of
  // its own.
  Task<std::vector<Outcome>> run_at_once(UnitQueues* queues, const std::vector<ComputeUnit*>* units);
  Chain joined(std::vector<WorkItem>* queue, std::size_t unit, std::size_t begin, std::size_t end) const;
  Task<void> run_unit(UnitQueues* queues, std::size_t index, ComputeUnit* unit, std::vector<Outcome>* outcomes, TaskScope* scope,
                      Picoseconds* taken);
  Task<void> load_and_run(ComputeUnit* unit, Chain chain, std::vector<Outcome>* outcomes);
  Task<void> work(std::vector<WorkItem>* queue, std::size_t index, ComputeUnit* unit, std::vector<Outcome>* outcomes, TaskScope* scope);

  Machine& machine_;
  Residency& residency_;
  GraphCache& graphs_;
};

}  // namespace vitro
