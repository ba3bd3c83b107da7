#include <fmt/format.h>

#include "engine/faults/fault_parts.hpp"

namespace vitro {
namespace {

bool has_choice(const RunResult& result) { return !result.error && result.status.ok() && !result.outcomes.empty(); }

// Numbers of neurons, experts and tokens that no model has.
void answer_garbage(Outcome& outcome) {
  if (auto* tokens = std::get_if<TokenChoice>(&outcome)) {
    for (std::int32_t& token : tokens->tokens) token = -1 - token;
  } else if (auto* experts = std::get_if<std::vector<ExpertChoice>>(&outcome)) {
    for (ExpertChoice& choice : *experts) {
      for (std::uint16_t& id : choice.ids) id = static_cast<std::uint16_t>(0xff00u + id % 256u);
    }
  } else if (auto* active = std::get_if<ActiveSet>(&outcome)) {
    for (IndexList& rows : active->rows) rows = std::make_shared<const std::vector<std::uint32_t>>(1, 0x7fffffffu);
  }
}

Task<RunResult> run_on(ComputeUnit* unit, Chain chain) { co_return co_await unit->run(std::move(chain)); }
Task<RunResult> run_on(ComputeUnit* unit, Graph graph, Bindings bindings) { co_return co_await unit->launch(graph, std::move(bindings)); }

}  // namespace

FaultyUnit::Fate FaultyUnit::fate() {
  Fate fate;
  const std::string& name = caps().name;
  if (state_.healed) dead_ = false;
  if (dead_) fate.failure = fmt::format("{} is gone (a fault on purpose)", name);
  const Struck struck = state_.next(FaultTarget::launch, name);
  for (const Fault* fault : struck.faults) {
    if (fault->kind == FaultKind::garbage) {
      fate.garbage = true;
      continue;  // fires if there is an answer
    }
    if (dead_) continue;
    state_.fired(fault->kind);
    const std::string what = fmt::format("{} of {} (a fault on purpose, launch {})", to_string(fault->kind), name, struck.number);
    if (is_harmless(fault->kind) || fault->kind == FaultKind::unit_hangs) fate.delay = std::max(fate.delay, fault->delay);
    if (!is_harmless(fault->kind)) fate.failure = what;
    if (fault->kind == FaultKind::unit_dies || fault->kind == FaultKind::unit_hangs) dead_ = true;
  }
  return fate;
}

Task<RunResult> FaultyUnit::spoil(Fate fate, RunResult result) {
  co_await FaultDelay{inner_.executor(), fate.delay};
  if (!fate.failure.empty()) result.status = {Code::unit_lost, fate.failure};
  if (fate.garbage && has_choice(result)) {
    state_.fired(FaultKind::garbage);
    for (Outcome& outcome : result.outcomes) answer_garbage(outcome);
  }
  ++state_.tally.ended;
  co_return result;
}

// inner: lazy, so a submission that fails never reaches the unit.
Detached FaultyUnit::serve(Fate fate, Task<RunResult> inner, Completion<RunResult>* done) {
  RunResult result;
  if (fate.failure.empty()) {
    try {
      result = co_await std::move(inner);
    } catch (...) {
      result.error = std::current_exception();
    }
  }
  result = co_await spoil(std::move(fate), std::move(result));
  done->complete(std::move(result));
}

void FaultyUnit::submit(const Chain& chain, Completion<RunResult>& done) {
  ++state_.tally.started;
  serve(fate(), run_on(&inner_, chain), &done);
}
void FaultyUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  ++state_.tally.started;
  serve(fate(), run_on(&inner_, graph, bindings), &done);
}

Task<Result<Graph>> FaultyUnit::load(GraphSpec spec) {
  const std::string name = caps().name;
  std::string failure;
  if (dead_ && !state_.healed) failure = fmt::format("{} is gone (a fault on purpose)", name);
  const Struck struck = state_.next(FaultTarget::load, name);
  for (const Fault* fault : struck.faults) {
    state_.fired(fault->kind);
    failure = fmt::format("{} of {} (a fault on purpose, load {})", to_string(fault->kind), name, struck.number);
  }
  if (!failure.empty()) co_return Status{Code::unit_lost, failure};
  ++state_.tally.started;
  Result<Graph> graph = co_await inner_.load(std::move(spec));
  ++state_.tally.ended;
  co_return graph;
}

}  // namespace vitro
