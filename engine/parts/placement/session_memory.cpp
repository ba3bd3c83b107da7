#include "engine/parts/placement/session_memory.hpp"

#include <algorithm>

#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::uint32_t columns(const View& view) { return view.shape[2] != 0 ? view.shape[2] : view.shape[1] != 0 ? view.shape[1] : view.shape[0]; }

Bytes bytes_of(const View& view) {
  Bytes rows = 1;
  for (const std::uint32_t dimension : view.shape) rows *= dimension == 0 ? 1 : dimension;
  return view.shape[0] == 0 ? 0 : rows / columns(view) * row_bytes(view.format, columns(view), view.layout);
}

}  // namespace

bool SessionMemory::Session::holds(const Run& run) const {
  const auto known = mapped.find(run.memory);
  if (known == mapped.end()) return false;
  const std::vector<bool>& segments = known->second;
  for (Bytes s = run.first; s < run.end; ++s) {
    if (s >= segments.size() || !segments[s]) return false;
  }
  return true;
}

void SessionMemory::Session::map(const Run& run) {
  std::vector<bool>& segments = mapped[run.memory];
  if (segments.size() < run.end) segments.resize(run.end);
  for (Bytes s = run.first; s < run.end; ++s) {
    if (!segments[s]) bytes += run.bytes_of(s);
    segments[s] = true;
  }
}

Bytes SessionMemory::Session::missing(const std::vector<Segment>& segments) const {
  Bytes sum = 0;
  auto known = mapped.end();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& [memory, number, bytes] = segments[i];
    if (i == 0 || memory != segments[i - 1].memory) known = mapped.find(memory);
    const bool there = known != mapped.end() && number < known->second.size() && known->second[number];
    if (!there) sum += bytes;
  }
  return sum;
}

std::vector<SessionMemory::Segment> SessionMemory::segments_of(const std::vector<Run>& runs) {
  std::vector<Segment> segments;
  for (const Run& run : runs) {
    for (Bytes s = run.first; s < run.end; ++s) segments.push_back({run.memory, s, run.bytes_of(s)});
  }
  std::ranges::sort(segments);
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
  return segments;
}

SessionMemory::Run SessionMemory::run_of(const View& view, Bytes offset, Bytes length) {
  return {view.memory.id(), view.memory.size(), offset / kSegment, (offset + length + kSegment - 1) / kSegment};
}

const std::vector<SessionMemory::Run>& SessionMemory::runs_at_row_offsets(const KernelCall& call) {
  const View& weights = call.in[0];
  Chosen& chosen = chosen_[{weights.memory.id(), weights.offset, call.layer, call.expert}];
  if (chosen.row_offsets == call.row_offsets) return chosen.runs;
  std::vector<char> under((weights.memory.size() + kSegment - 1) / kSegment);  // not bits: thousands of rows each set one or two
  const Bytes row = row_bytes(weights.format, columns(weights));
  for (const std::uint32_t place : *call.row_offsets) {
    const Bytes begin = weights.offset + place * kRowOffsetUnit, end = begin + row;
    for (Bytes s = begin / kSegment; s * kSegment < end; ++s) under[s] = 1;
  }
  chosen = {call.row_offsets, {}};
  for (Bytes s = 0; s < under.size(); ++s) {
    if (under[s] != 0) chosen.runs.push_back({weights.memory.id(), weights.memory.size(), s, s + 1});
  }
  return chosen.runs;
}

std::optional<std::size_t> SessionMemory::place(const Chain& chain) {
  std::vector<Run> needed;
  const auto whole = [&](const View& view) {
    if (view.memory) needed.push_back(run_of(view, view.offset, bytes_of(view)));
  };
  for (const KernelCall& call : chain) {
    const bool by_place = call.row_offsets != nullptr && call.in[0].memory;
    if (by_place) {
      const std::vector<Run>& runs = runs_at_row_offsets(call);
      needed.insert(needed.end(), runs.begin(), runs.end());
    }
    for (std::size_t i = by_place ? 1 : 0; i < call.in.size(); ++i) whole(call.in[i]);
    for (const View& view : call.out) whole(view);
  }
  // What has run once mostly finds all that it needs where it ran.
  for (std::size_t s = 0; s < sessions_.size(); ++s) {
    if (std::all_of(needed.begin(), needed.end(), [&](const Run& run) { return sessions_[s].holds(run); })) return s;
  }
  const std::vector<Segment> segments = segments_of(needed);
  if (Session().missing(segments) > limit_) return std::nullopt;

  // Where least is missing, of the sessions with room for it.
  std::optional<std::size_t> best;
  Bytes least = 0;
  for (std::size_t s = 0; s < sessions_.size(); ++s) {
    const Bytes missing = sessions_[s].missing(segments);
    if (sessions_[s].bytes + missing > limit_ || (best && missing >= least)) continue;
    best = s;
    least = missing;
  }
  if (!best) {
    best = sessions_.size();
    sessions_.emplace_back();
  }
  for (const Run& run : needed) sessions_[*best].map(run);
  return best;
}

}  // namespace vitro
