#include "engine/parts/weights/phase_runner.hpp"

#include <iterator>
#include <optional>
#include <utility>

#include "engine/machine/run_together.hpp"
#include "engine/parts/placement/placement.hpp"

namespace vitro {

namespace {

std::size_t operands_of(const Chain& chain) {
  std::size_t operands = 0;
  for (const KernelCall& call : chain) operands += call.in.size() + call.out.size();
  return operands;
}

// A unit of static graphs has a graph for so many operands and no more.
bool one_chain_each(const UnitQueues& queues, const std::vector<ComputeUnit*>& units) {
  for (std::size_t i = 0; i < queues.size(); ++i) {
    std::size_t operands = 0;
    if (units[i]->caps().static_graphs) {
      for (const WorkItem& item : queues[i]) operands += operands_of(item.calls);
    }
    if (operands > kGraphOperands) return false;
  }
  return true;
}

// Throws what went wrong.
void take_outcomes(RunResult result, std::vector<Outcome>& outcomes) {
  result.status.or_throw();
  std::move(result.outcomes.begin(), result.outcomes.end(), std::back_inserter(outcomes));
}

}  // namespace

std::vector<Chain> whole_chains(std::vector<WorkItem> queue) {
  std::vector<Chain> chains;
  std::size_t operands = 0;
  for (WorkItem& item : queue) {
    const std::size_t own = operands_of(item.calls);
    if (chains.empty() || operands + own > kGraphOperands) {
      chains.emplace_back();
      operands = 0;
    }
    operands += own;
    std::move(item.calls.begin(), item.calls.end(), std::back_inserter(chains.back()));
  }
  return chains;
}

Task<std::vector<Outcome>> PhaseRunner::run(UnitQueues queues, std::vector<ComputeUnit*> units, std::vector<Picoseconds>* taken) {
  residency_.plan(queues);
  if (taken == nullptr && residency_.stays() && one_chain_each(queues, units)) co_return co_await run_at_once(&queues, &units);
  if (taken != nullptr) taken->assign(queues.size(), Picoseconds(0));
  std::vector<std::vector<Outcome>> per_unit(queues.size());
  TaskScope scope(machine_.executor);
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (!queues[i].empty()) scope.spawn(run_unit(&queues, i, units[i], &per_unit[i], &scope, taken == nullptr ? nullptr : &(*taken)[i]));
  }
  co_await scope.join();
  std::vector<Outcome> all;
  for (auto& outcomes : per_unit) std::move(outcomes.begin(), outcomes.end(), std::back_inserter(all));
  co_return all;
}

Task<std::vector<Outcome>> PhaseRunner::run_at_once(UnitQueues* queues, const std::vector<ComputeUnit*>* units) {
  RunTogether runs(machine_);
  std::vector<Chain> waiting(queues->size());  // for a graph
  for (std::size_t i = 0; i < queues->size(); ++i) {
    if ((*queues)[i].empty()) continue;
    Chain chain = joined(&(*queues)[i], i, 0, (*queues)[i].size());
    if (!graphs_.add_to(runs, *(*units)[i], chain)) waiting[i] = std::move(chain);
  }
  // From here on nothing throws before all have ended.
  TaskScope scope(machine_.executor);
  std::vector<std::optional<std::vector<Outcome>>> waited(queues->size());  // outcomes of those; of the others: none
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (!waiting[i].empty()) scope.spawn(load_and_run((*units)[i], std::move(waiting[i]), &waited[i].emplace()));
  }
  co_await runs.end();
  co_await scope.join();
  std::vector<Outcome> all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < queues->size(); ++i) {
    if ((*queues)[i].empty()) continue;
    if (!waited[i]) take_outcomes(runs.take(next++), waited[i].emplace());
    std::move(waited[i]->begin(), waited[i]->end(), std::back_inserter(all));
  }
  co_return all;
}

Task<void> PhaseRunner::load_and_run(ComputeUnit* unit, Chain chain, std::vector<Outcome>* outcomes) {
  machine_.clock.charge(PolicyWork::submit, 1);
  take_outcomes(co_await graphs_.run(unit, std::move(chain)), *outcomes);
}

// The calls of items in [begin, end) of a unit's queue, with their weights where they are.
Chain PhaseRunner::joined(std::vector<WorkItem>* queue, std::size_t unit, std::size_t begin, std::size_t end) const {
  std::size_t calls = 0;
  for (std::size_t item = begin; item < end; ++item) calls += (*queue)[item].calls.size();
  Chain chain = std::move((*queue)[begin].calls);
  chain.reserve(calls);
  residency_.bind(unit, begin, chain);
  for (std::size_t item = begin + 1; item < end; ++item) {
    Chain& next = (*queue)[item].calls;
    residency_.bind(unit, item, next);
    std::move(next.begin(), next.end(), std::back_inserter(chain));
  }
  return chain;
}

Task<void> PhaseRunner::run_unit(UnitQueues* queues, std::size_t index, ComputeUnit* unit, std::vector<Outcome>* outcomes, TaskScope* scope,
                                 Picoseconds* taken) {
  const Picoseconds begin = machine_.clock.now();
  try {
    co_await work(&(*queues)[index], index, unit, outcomes, scope);
    if (taken != nullptr) *taken = machine_.clock.now() - begin;
  } catch (...) {
    residency_.abandon();
    throw;
  }
}

Task<void> PhaseRunner::work(std::vector<WorkItem>* queue, std::size_t index, ComputeUnit* unit, std::vector<Outcome>* outcomes,
                             TaskScope* scope) {
  for (std::size_t begin = 0; begin < queue->size() && !scope->stop_requested();) {
    if (!residency_.ready(index, begin)) co_await residency_.fetch(index, begin, unit->caps().id);
    // Items that have nothing to wait for join the chain: a dispatch costs more than many of them. A graph binds so many operands.
    const bool static_graphs = unit->caps().static_graphs;
    std::size_t operands = static_graphs ? operands_of((*queue)[begin].calls) : 0;
    std::size_t end = begin + 1;
    for (; end < queue->size() && residency_.ready(index, end); ++end) {
      if (static_graphs && (operands += operands_of((*queue)[end].calls)) > kGraphOperands) break;
    }
    Chain chain = joined(queue, index, begin, end);
    machine_.clock.charge(PolicyWork::submit, 1);
    take_outcomes(co_await graphs_.run(unit, std::move(chain)), *outcomes);
    for (std::size_t item = begin; item < end; ++item) residency_.done(index, item);
    begin = end;
  }
}

}  // namespace vitro
