#include "engine/torture/shadow/shadow_bytes.hpp"

#include <algorithm>
#include <iterator>

namespace vitro {
namespace {

Holds behind(Holds holds, Bytes bytes) {
  if (holds.kind == Holds::Kind::from_file) holds.from += bytes;
  return holds;
}

}  // namespace

void ShadowBytes::put(Bytes begin, Bytes end, Holds holds) {
  if (begin >= end) return;
  auto run = runs_.upper_bound(begin);
  if (run != runs_.begin()) --run;
  while (run != runs_.end() && run->first < end) {
    const Bytes first = run->first, last = run->second.first;
    const Holds was = run->second.second;
    if (last <= begin) {
      ++run;
      continue;
    }
    run = runs_.erase(run);
    if (first < begin) runs_[first] = {begin, was};
    if (last > end) run = std::next(runs_.insert({end, {last, behind(was, end - first)}}).first);
  }
  if (holds.kind != Holds::Kind::nothing) runs_[begin] = {end, holds};
}

std::vector<ShadowBytes::Run> ShadowBytes::runs(Bytes begin, Bytes end) const {
  std::vector<Run> found;
  Bytes at = begin;
  auto run = runs_.upper_bound(begin);
  if (run != runs_.begin()) --run;
  for (; run != runs_.end() && run->first < end; ++run) {
    const auto& [last, holds] = run->second;
    if (last <= at) continue;
    const Bytes first = std::max(run->first, at);
    if (first > at) found.push_back({at, first, {}});
    at = std::min(last, end);
    found.push_back({first, at, behind(holds, first - run->first)});
  }
  if (at < end) found.push_back({at, end, {}});
  return found;
}

}  // namespace vitro
