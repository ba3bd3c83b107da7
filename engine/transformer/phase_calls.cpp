#include "engine/transformer/phase_calls.hpp"

#include <algorithm>
#include <utility>

#include "engine/graph/operator_graph.hpp"

namespace vitro {

// What the experts of a step are, and which rows of the embedding it reads, its sizes do not say.
bool PhaseCalls::is_fixed(const Phase& phase) const {
  const auto varies = [this](OperatorId id) {
    const std::vector<OperatorId> inputs = inputs_of(graph_, id);
    const auto routed = [this](OperatorId from) { return graph_[from].rows == RowSet::routed; };
    return routed(id) || std::ranges::any_of(inputs, routed) || graph_[id].is<ops::Embed, ops::KvStage>();
  };
  return std::ranges::none_of(phase.groups, [&](const OperatorGroup& group) {
    return group.rows == RowSet::routed || std::ranges::any_of(group.operators, varies);
  });
}

UnitQueues PhaseCalls::of(const Phase& phase, const StepContext& step, const Shares& shares) {
  const bool plain = step.adapters.empty() && step.sampled_adapters.empty() && step.staged.count == 0 && step.rows != step.sampled;
  if (!repeats_ || !plain) return ++built_, builder_.build(phase, step, shares);
  const auto [place, is_new] = known_.try_emplace(&phase);
  Known& known = place->second;
  if (is_new) known.fixed = is_fixed(phase);
  if (!known.fixed) return ++built_, builder_.build(phase, step, shares);
  Likeness like{step.rows->size(), step.sampled->size(), step.first_row, step.table_width, step.sampling, step.choose, shares};
  const bool alike = !is_new && known.like == like;
  if (!alike || !known.kept) {
    UnitQueues queues = builder_.build(phase, step, shares);
    ++built_;
    known.kept = alike;
    known.queues = alike ? queues : UnitQueues{};
    known.sampled = alike ? step.sampled : nullptr;
    known.like = std::move(like);
    return queues;
  }
  ++repeated_;
  UnitQueues queues = known.queues;
  for (std::vector<WorkItem>& queue : queues) {
    for (WorkItem& item : queue) {
      for (KernelCall& call : item.calls) call.batch = call.batch == known.sampled ? step.sampled : step.rows;
    }
  }
  return queues;
}

}  // namespace vitro
