#include "engine/parts/ffn/neuron_cluster/landing_buffer.hpp"

#include <algorithm>

#include "engine/base/check.hpp"

namespace vitro {

std::optional<Bytes> LandingBuffer::try_take(Bytes bytes) {
  bytes = round_up(bytes, kPageSize);
  VITRO_CHECK(bytes > 0 && bytes <= size_, "a read beyond the room for reads");
  const auto found = std::ranges::find_if(free_, [bytes](const Hole& hole) { return hole.end - hole.begin >= bytes; });
  if (found == free_.end()) return std::nullopt;
  const Bytes offset = found->begin;
  found->begin += bytes;
  if (found->begin == found->end) free_.erase(found);
  return offset;
}

std::optional<Bytes> LandingBuffer::try_take_lowest(Bytes bytes) {
  if (free_.empty() || free_.front().end - free_.front().begin < round_up(bytes, kPageSize)) return std::nullopt;
  if (std::ranges::any_of(passing_, [this](Bytes offset) { return offset < free_.front().begin; })) return std::nullopt;
  return try_take(bytes);
}

std::optional<Bytes> LandingBuffer::try_take_highest(Bytes bytes) {
  bytes = round_up(bytes, kPageSize);
  VITRO_CHECK(bytes > 0 && bytes <= size_, "a read beyond the room for reads");
  for (auto hole = free_.end(); hole != free_.begin();) {
    --hole;
    if (hole->end - hole->begin < bytes) continue;
    const Bytes offset = passing_.emplace_back(hole->end -= bytes);
    if (hole->begin == hole->end) free_.erase(hole);
    return offset;
  }
  return std::nullopt;
}

void LandingBuffer::give_back(Bytes offset, Bytes bytes) {
  const Bytes end = offset + round_up(bytes, kPageSize);
  const auto next = std::ranges::lower_bound(free_, offset, {}, &Hole::begin);
  const auto before = next == free_.begin() ? free_.end() : next - 1;
  const bool apart = (next == free_.end() || end <= next->begin) && (before == free_.end() || before->end <= offset);
  VITRO_CHECK(end <= size_ && apart, "room for a read was given back twice");
  std::erase(passing_, offset);
  const bool meets_next = next != free_.end() && next->begin == end, meets_before = before != free_.end() && before->end == offset;
  if (meets_before) {
    before->end = meets_next ? next->end : end;
    if (meets_next) free_.erase(next);
  } else if (meets_next) {
    next->begin = offset;
  } else {
    free_.insert(next, {offset, end});
  }
  freed_.notify();
}

}  // namespace vitro
