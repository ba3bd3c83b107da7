#include "hw_models/npu/pipeline.hpp"

#include <algorithm>

namespace vitro::hw {
namespace {

// Groups that are followed, and those among which the rhythm is taken: after the start, before the end empties the pipeline.
constexpr std::uint32_t kFollowed = 16, kFrom = 4, kTo = 9;

constexpr std::size_t kRemembered = 32;  // plans, more than a layer has

double pass_seconds(const TilePlanner& planner, const TilePlan& plan, const Pass& pass) {
  const std::uint32_t groups = std::min(pass.groups, kFollowed);
  double full[kStages], last[kStages], end[kStages][kFollowed];
  std::uint32_t next[kStages] = {};
  const std::uint32_t ahead = planner.ahead();
  for (const Stage stage : {kIn, kVector, kMatrix, kOut}) {
    full[stage] = planner.time(plan, pass.full, stage);
    last[stage] = planner.time(plan, pass.last, stage);
  }
  // Free from: memory, HVX, HMX. A vector load keeps its thread waiting.
  const std::size_t memory = plan.path == Path::vector_load ? 1 : 0;
  const std::size_t unit_of[kStages] = {memory, 1, 2, memory};
  const double arrived = planner.load_time(plan, pass.activations, 1), prepared = arrived + pass.prepare;
  double free[3] = {arrived, prepared, 0};

  while (next[kOut] < groups) {
    double earliest = 0;
    int chosen = -1;
    for (const int s : {kOut, kMatrix, kVector, kIn}) {  // what empties buffers goes first
      const std::uint32_t j = next[s];
      const bool waits_for_buffer = s != kOut && j >= ahead;
      if (j == groups || (s != kIn && j == next[s - 1]) || (waits_for_buffer && j - ahead >= next[s + 1])) continue;
      if (!hexagon::in_turn(static_cast<Stage>(s), j, groups, next, planner.out_behind(), pass.once())) continue;
      if (planner.one_by_one() && s == kIn && next[kOut] < j) continue;
      double start = s == kIn ? 0 : std::max(prepared, end[s - 1][j]);
      if (j > 0) start = std::max(start, end[s][j - 1]);
      if (waits_for_buffer) start = std::max(start, end[s + 1][j - ahead]);
      if (planner.one_by_one() && s == kIn && j > 0) start = std::max(start, end[kOut][j - 1]);
      if ((j + 1 == groups ? last : full)[s] > 0) start = std::max(start, free[unit_of[s]]);
      if (chosen < 0 || start < earliest) {
        earliest = start;
        chosen = s;
      }
    }
    const std::uint32_t j = next[chosen]++;
    const double time = (j + 1 == groups ? last : full)[chosen];
    end[chosen][j] = earliest + time;
    if (time > 0) free[unit_of[chosen]] = earliest + time;
  }
  double seconds = end[kOut][groups - 1];
  if (pass.groups > groups) seconds += (pass.groups - groups) * (end[kOut][kTo] - end[kOut][kFrom]) / (kTo - kFrom);
  return seconds;
}

}  // namespace

double pipeline_seconds(const TilePlanner& planner, const TilePlan& plan) {
  double seconds = pass_seconds(planner, plan, plan.last_pass);
  if (plan.passes > 1) seconds += (plan.passes - 1) * pass_seconds(planner, plan, plan.pass);
  return seconds;
}

double PipelineTimes::seconds(const TilePlan& plan) {
  const auto found = std::ranges::find(known_, plan, &std::pair<TilePlan, double>::first);
  if (found != known_.end()) return found->second;
  const double seconds = pipeline_seconds(planner_, plan);
  if (known_.size() < kRemembered) {
    known_.emplace_back(plan, seconds);
  } else {
    known_[next_++ % kRemembered] = {plan, seconds};
  }
  return seconds;
}

}  // namespace vitro::hw
