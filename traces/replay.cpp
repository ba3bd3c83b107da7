#include "traces/replay.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "traces/foresight.hpp"

namespace vitro {
namespace {

const std::vector<SeqPos>& rows_of(const KernelCall& call) {
  VITRO_CHECK(call.batch != nullptr, "a call with an outcome needs a batch");
  return *call.batch;
}

template <class T>
const T& find(const std::map<OutcomeKey, T>& entries, const OutcomeKey& key, std::string_view what) {
  const auto entry = entries.find(key);
  if (entry == entries.end()) throw RunError(fmt::format("the recording has no {} for {}", what, to_string(key)));
  return entry->second;
}

IndexList fired_in(const FiredNeurons& fired, const KernelCall& call, const OutcomeKey& key) {
  const auto [first, end] = slice_range(call);
  const auto require = [&, &key = key](std::uint32_t from, std::uint32_t to) {
    if (fired.covers(from, to)) return;
    throw RunError(fmt::format("the recording does not know neurons {} to {} of {}", from, to, to_string(key)));
  };
  auto ids = std::make_shared<std::vector<std::uint32_t>>();
  if (call.rows != nullptr) {
    for (const std::uint32_t neuron : *call.rows) require(neuron, neuron + 1);
    std::set_intersection(fired.ids.begin(), fired.ids.end(), call.rows->begin(), call.rows->end(), std::back_inserter(*ids));
  } else {
    require(first, end);
    ids->assign(std::lower_bound(fired.ids.begin(), fired.ids.end(), first), std::lower_bound(fired.ids.begin(), fired.ids.end(), end));
  }
  return ids;
}

// What was looked at in the part of the layer that a predictor is asked of: it had named that.
IndexList named_in(const Recording& recording, const KernelCall& call, const OutcomeKey& key) {
  auto ids = std::make_shared<std::vector<std::uint32_t>>();
  const auto fired = recording.fired.find(key);
  if (fired == recording.fired.end()) return ids;  // nothing was named, so nothing was looked at
  const auto [first, end] = slice_range(call);
  for (const auto& [from, to] : fired->second.covered) {
    for (std::uint32_t neuron = std::max(from, first); neuron < std::min(to, end); ++neuron) ids->push_back(neuron);
  }
  return ids;
}

bool asks_predictor(const KernelCall& call) { return call.is<ops::Select>() && call.get<ops::Select>().of == SelectOf::predictor; }

}  // namespace

ReplayFunction::ReplayFunction(Recording recording, RouterForesight foresight) : recording_(std::move(recording)), foresight_(foresight) {
  const auto looked_at = recording_.about.find(Recording::kLookedAt);
  names_again_ = looked_at != recording_.about.end() && looked_at->second == Recording::kNamed;
}

std::vector<ExpertChoice> ReplayFunction::foreseen(const KernelCall& call) {
  const std::vector<SeqPos>& rows = rows_of(call);
  std::vector<ExpertChoice> named;
  std::uint64_t lacking = 0;
  for (const SeqPos at : rows) {
    const auto recorded = recording_.experts.find(OutcomeKey{call.layer, kForeseen, at});
    if (recorded != recording_.experts.end()) {
      named.push_back(recorded->second);
      continue;
    }
    ++lacking;
    const ExpertChoice& truth = find(recording_.experts, OutcomeKey{call.layer, -1, at}, "experts");
    if (foresight_.share) named.push_back(foresee(truth, *foresight_.share, {foresight_.seed, call.layer, at, call.in.at(0).shape[1]}));
  }
  asked_ahead_ += rows.size();
  not_recorded_ += lacking;
  if (lacking > 0 && !foresight_.share) return {};
  return named;
}

std::vector<std::string> ReplayFunction::notes() const {
  if (not_recorded_ == 0) return {};
  const std::string what = foresight_.share
                               ? fmt::format("there each chosen expert was named with the probability of expert_foresight, {:g} %",
                                             100 * *foresight_.share)
                               : "no expert was read ahead for the rows asked with it (a profile with expert_foresight says how "
                                 "well routers foresee)";
  return {fmt::format("replay: {} of {} times that a router was asked ahead for a row's experts, the recording does not say what it "
                      "named: {}", not_recorded_.load(), asked_ahead_.load(), what)};
}

Outcome ReplayFunction::execute(const KernelCall& call) {
  const auto key = [&](SeqPos at) { return OutcomeKey{call.layer, call.expert, at}; };
  if (reports_active(call)) {
    ActiveSet active;
    for (const SeqPos at : rows_of(call)) {
      if (names_again_ && asks_predictor(call)) {
        active.rows.push_back(named_in(recording_, call, key(at)));
        continue;
      }
      active.rows.push_back(fired_in(find(recording_.fired, key(at), "active neurons"), call, key(at)));
    }
    return active;
  }
  if (call.is<ops::Route>() && call.expert == kForeseen) return foreseen(call);
  if (call.is<ops::Route>()) {
    std::vector<ExpertChoice> choices;
    for (const SeqPos at : rows_of(call)) choices.push_back(find(recording_.experts, key(at), "experts"));
    return choices;
  }
  if (call.is<ops::Sample>()) {
    TokenChoice choice;
    for (const SeqPos at : rows_of(call)) choice.tokens.push_back(find(recording_.tokens, key(at), "token"));
    return choice;
  }
  return {};
}

}  // namespace vitro
