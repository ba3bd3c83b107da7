#include "hw_models/npu/tcm.hpp"

#include <algorithm>

#include "engine/base/check.hpp"

namespace vitro::hw {

TcmAllocator::TcmAllocator(Bytes capacity, Bytes alignment) : capacity_(capacity), alignment_(alignment), gaps_{{0, capacity}} {
  VITRO_CHECK(alignment > 0 && capacity > 0 && capacity % alignment == 0, "TCM is a whole number of aligned units");
}

std::optional<Bytes> TcmAllocator::allocate(Bytes bytes) {
  VITRO_CHECK(bytes > 0, "an empty block of TCM");
  const Bytes length = round_up(bytes, alignment_);
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [length](const auto& entry) { return entry.second >= length; });
  if (gap == gaps_.end()) return std::nullopt;
  const auto [offset, room] = *gap;
  gaps_.erase(gap);
  if (room > length) gaps_.emplace(offset + length, room - length);
  blocks_.emplace(offset, length);
  used_ += length;
  return offset;
}

void TcmAllocator::free(Bytes offset) {
  const auto block = blocks_.find(offset);
  VITRO_CHECK(block != blocks_.end(), "a block of TCM that is not allocated");
  Bytes length = block->second;
  blocks_.erase(block);
  used_ -= length;
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && next->first == offset + length) {
    length += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += length;
      return;
    }
  }
  gaps_.emplace(offset, length);
}

Bytes TcmAllocator::largest_gap() const {
  Bytes largest = 0;
  for (const auto& [offset, length] : gaps_) largest = std::max(largest, length);
  return largest;
}

}  // namespace vitro::hw
