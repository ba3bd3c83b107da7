// LRU over the pages of one file: what an operating system's page cache decides, without its timing.
#pragma once
#include <cstdint>
#include <vector>

namespace vitro {

// Pure bookkeeping; O(1) per access. Recency follows the order of calls.
class PageCache {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  PageCache(std::uint32_t pages, std::uint32_t capacity);

  bool contains(std::uint32_t page) const { return links_[page].resident; }
  std::uint32_t size() const { return size_; }
  std::uint32_t capacity() const { return capacity_; }

  // Marks a resident page as the most recently used one. Requires: contains(page).
  void touch(std::uint32_t page);
  // Makes a page resident and most recently used; returns the page that had to go, or kNone. Requires: !contains(page).
  std::uint32_t insert(std::uint32_t page);

 private:
  struct Link {
    std::uint32_t newer = kNone, older = kNone;
    bool resident = false;
  };
  void unlink(std::uint32_t page);
  void push_newest(std::uint32_t page);

  std::vector<Link> links_;
  std::uint32_t capacity_, size_ = 0, newest_ = kNone, oldest_ = kNone;
};

}  // namespace vitro
