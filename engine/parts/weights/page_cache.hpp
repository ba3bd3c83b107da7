// LRU over the pages of one file: what an operating system's page cache decides, without its timing.
#pragma once
#include "engine/base/recency_list.hpp"

namespace vitro {

// Pure bookkeeping; O(1) per access. Recency follows the order of calls.
class PageCache {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  PageCache(std::uint32_t pages, std::uint32_t capacity) : list_(pages), capacity_(capacity) {
    VITRO_CHECK(capacity > 0, "a cache without room");
  }

  bool contains(std::uint32_t page) const { return list_.contains(page); }
  std::uint32_t size() const { return list_.size(); }
  std::uint32_t capacity() const { return capacity_; }

  // Marks a resident page as the most recently used one. Requires: contains(page).
  void touch(std::uint32_t page) {
    list_.erase(page);
    list_.push_newest(page);
  }
  // Makes a page resident and most recently used; returns the page that had to go, or kNone. Requires: !contains(page).
  std::uint32_t insert(std::uint32_t page) {
    std::uint32_t victim = kNone;
    if (size() == capacity_) list_.erase(victim = list_.oldest());
    list_.push_newest(page);
    return victim;
  }

 private:
  RecencyList list_;
  std::uint32_t capacity_;
};

}  // namespace vitro
