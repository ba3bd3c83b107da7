// The device's cache of its logical-to-physical map: reads outside its reach pay for fetching a map page first.
#pragma once
#include <cstdint>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

#include "engine/base/rng.hpp"
#include "engine/base/units.hpp"

namespace vitro::hw {

// One entry maps one segment (a map page of 4 KiB with 4-byte entries covers 4 MiB); least recently used goes first.
class MapCache {
 public:
  static constexpr Bytes kSegment = 4 * MiB;

  // The die that holds a segment's map page, modulo their number: map pages are spread over them like everything else.
  static std::uint64_t die(std::uint64_t segment) { return mix(segment, {}); }

  explicit MapCache(Bytes reach) : capacity_(reach / kSegment) {}

  // True when the segment of `address` was not cached; it is afterwards.
  bool misses(std::uint64_t address) {
    if (capacity_ == 0) return true;
    const std::uint64_t segment = address / kSegment;
    if (!order_.empty() && order_.front() == segment) return false;
    if (const auto found = where_.find(segment); found != where_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return false;
    }
    if (where_.size() < capacity_) {
      order_.push_front(segment);
      where_[segment] = order_.begin();
      return true;
    }
    auto entry = where_.extract(order_.back());  // its memory is the newcomer's
    order_.splice(order_.begin(), order_, std::prev(order_.end()));
    order_.front() = segment;
    entry.key() = segment;
    where_.insert(std::move(entry));
    return true;
  }

 private:
  std::size_t capacity_;
  std::list<std::uint64_t> order_;  // most recent first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> where_;
};

}  // namespace vitro::hw
