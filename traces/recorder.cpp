#include "traces/recorder.hpp"

#include "engine/ops/contract.hpp"

namespace vitro {
namespace {

OutcomeKey key_of(const KernelCall& call, std::size_t row) {
  VITRO_CHECK(call.batch != nullptr && row < call.batch->size(), "an outcome for a row that the batch does not have");
  return {call.layer, call.expert, (*call.batch)[row]};
}

using Selected = std::set<OutcomeKey>;

void record(Recording& into, Selected& selected, const KernelCall& call, const ActiveSet& active) {
  if (call.is<ops::Select>() && call.get<ops::Select>().of == SelectOf::predictor) return;
  const auto [first, end] = slice_range(call);
  for (std::size_t row = 0; row < active.rows.size(); ++row) {
    const OutcomeKey key = key_of(call, row);
    if (call.is<ops::Select>()) {
      if (selected.insert(key).second) into.fired.erase(key);
    } else if (selected.contains(key)) {
      continue;
    }
    FiredNeurons& fired = into.fired[key];
    fired.add(*active.rows[row]);
    if (call.rows == nullptr) fired.cover(first, end);
    // Where only some rows were computed, nothing is known of the others.
    for (std::size_t i = 0; call.rows != nullptr && i < call.rows->size();) {
      const std::size_t run = i;
      while (i < call.rows->size() && (*call.rows)[i] - (*call.rows)[run] == i - run) ++i;
      fired.cover((*call.rows)[run], (*call.rows)[i - 1] + 1);
    }
  }
}

void record(Recording& into, Selected&, const KernelCall& call, const std::vector<ExpertChoice>& choices) {
  for (std::size_t row = 0; row < choices.size(); ++row) into.experts[key_of(call, row)] = choices[row];
}

void record(Recording& into, Selected&, const KernelCall& call, const TokenChoice& choice) {
  for (std::size_t row = 0; row < choice.tokens.size(); ++row) into.tokens[key_of(call, row)] = choice.tokens[row];
}

void record(Recording&, Selected&, const KernelCall&, std::monostate) {}

}  // namespace

Outcome RecordingFunction::execute(const KernelCall& call) {
  Outcome outcome = inner_.execute(call);
  if (outcome.index() != 0) {
    const std::scoped_lock lock(mutex_);
    predicted_ = predicted_ || (call.is<ops::Select>() && call.get<ops::Select>().of == SelectOf::predictor);
    std::visit([&](const auto& what) { record(recording_, selected_, call, what); }, outcome);
  }
  return outcome;
}

Recording RecordingFunction::take() {
  const std::scoped_lock lock(mutex_);
  selected_.clear();
  return std::exchange(recording_, {});
}

}  // namespace vitro
