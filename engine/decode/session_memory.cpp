#include "engine/decode/session_memory.hpp"

#include <algorithm>

#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::uint32_t columns(const View& view) { return view.shape[2] != 0 ? view.shape[2] : view.shape[1] != 0 ? view.shape[1] : view.shape[0]; }

Bytes bytes_of(const View& view) {
  Bytes rows = 1;
  for (const std::uint32_t dimension : view.shape) rows *= dimension == 0 ? 1 : dimension;
  return view.shape[0] == 0 ? 0 : rows / columns(view) * row_bytes(view.format, columns(view));
}

}  // namespace

void SessionMemory::add(const View& view, Bytes offset, Bytes length, std::map<Segment, Bytes>& needed) const {
  for (Bytes s = offset / kSegment; s * kSegment < offset + length; ++s) {
    needed[{view.memory.id(), s}] = std::min(kSegment, view.memory.size() - s * kSegment);
  }
}

void SessionMemory::add_places(const KernelCall& call, std::map<Segment, Bytes>& needed) {
  const View& weights = call.in[0];
  Chosen& chosen = chosen_[{weights.memory.id(), weights.offset, call.layer, call.expert}];
  if (chosen.places != call.places) {
    std::map<Segment, Bytes> under;
    const Bytes row = row_bytes(weights.format, columns(weights));
    for (const std::uint32_t place : *call.places) add(weights, weights.offset + place * kPlaceUnit, row, under);
    chosen = {call.places, {}};
    for (const auto& [segment, bytes] : under) chosen.segments.insert(segment);
  }
  for (const Segment& segment : chosen.segments) needed[segment] = std::min(kSegment, weights.memory.size() - segment.second * kSegment);
}

std::optional<std::size_t> SessionMemory::place(const Chain& chain) {
  std::map<Segment, Bytes> needed;
  const auto whole = [&](const View& view) {
    if (view.memory) add(view, view.offset, bytes_of(view), needed);
  };
  for (const KernelCall& call : chain) {
    const bool by_place = call.places != nullptr && call.in[0].memory;
    if (by_place) add_places(call, needed);
    for (std::size_t i = by_place ? 1 : 0; i < call.in.size(); ++i) whole(call.in[i]);
    for (const View& view : call.out) whole(view);
  }
  Bytes all = 0;
  for (const auto& [segment, bytes] : needed) all += bytes;
  if (all > limit_) return std::nullopt;

  // Where least is missing, of the sessions with room for it.
  std::optional<std::size_t> best;
  Bytes least = 0;
  for (std::size_t s = 0; s < sessions_.size(); ++s) {
    Bytes missing = 0;
    for (const auto& [segment, bytes] : needed) missing += sessions_[s].segments.contains(segment) ? 0 : bytes;
    if (sessions_[s].bytes + missing > limit_ || (best && missing >= least)) continue;
    best = s;
    least = missing;
  }
  if (!best) {
    best = sessions_.size();
    sessions_.emplace_back();
  }
  Session& session = sessions_[*best];
  for (const auto& [segment, bytes] : needed) {
    if (session.segments.insert(segment).second) session.bytes += bytes;
  }
  return best;
}

}  // namespace vitro
