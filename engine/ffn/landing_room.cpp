#include "engine/ffn/landing_room.hpp"

#include <algorithm>
#include <iterator>

#include "engine/base/check.hpp"

namespace vitro {

Task<Bytes> LandingRoom::take(Bytes bytes) {
  bytes = round_up(bytes, kPageSize);
  VITRO_CHECK(bytes > 0 && bytes <= size_, "a read beyond the room for reads");
  for (;;) {
    const auto found = std::ranges::find_if(free_, [bytes](const auto& hole) { return hole.second >= bytes; });
    if (found != free_.end()) {
      const auto [offset, length] = *found;
      free_.erase(found);
      if (length > bytes) free_[offset + bytes] = length - bytes;
      co_return offset;
    }
    co_await freed_.changed();
  }
}

void LandingRoom::give_back(Bytes offset, Bytes bytes) {
  bytes = round_up(bytes, kPageSize);
  auto next = free_.lower_bound(offset);
  VITRO_CHECK(offset + bytes <= size_ && (next == free_.end() || offset + bytes <= next->first), "room for a read was given back twice");
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    VITRO_CHECK(before->first + before->second <= offset, "room for a read was given back twice");
    if (before->first + before->second == offset) {
      before->second += bytes;
      return freed_.notify();
    }
  }
  free_[offset] = bytes;
  freed_.notify();
}

}  // namespace vitro
