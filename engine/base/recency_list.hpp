// Numbers of blocks or pages from the least to the most recently used, with O(1) moves.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/check.hpp"

namespace vitro {

class RecencyList {
 public:
  explicit RecencyList(std::uint32_t blocks) : links_(blocks) {}

  bool contains(std::uint32_t block) const { return links_[block].newer != kAbsent; }
  std::uint32_t size() const { return size_; }
  std::uint32_t oldest() const { return oldest_; }  // Requires: size() > 0

  void push_newest(std::uint32_t block) {
    VITRO_CHECK(!contains(block), "a block entered a list twice");
    links_[block] = {kNone, newest_};
    (newest_ == kNone ? oldest_ : links_[newest_].newer) = block;
    newest_ = block;
    ++size_;
  }
  void erase(std::uint32_t block) {
    VITRO_CHECK(contains(block), "a block left a list that it was not in");
    const Link link = links_[block];
    (link.newer == kNone ? newest_ : links_[link.newer].older) = link.older;
    (link.older == kNone ? oldest_ : links_[link.older].newer) = link.newer;
    links_[block].newer = kAbsent;
    --size_;
  }
  std::optional<std::uint32_t> oldest_without(const std::function<bool(std::uint32_t)>& held) const {
    for (std::uint32_t block = oldest_; block != kNone; block = links_[block].newer) {
      if (!held(block)) return block;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint32_t kNone = ~0u, kAbsent = ~0u - 1;
  struct Link {  // small: lists of millions of blocks go through the caches
    std::uint32_t newer = kAbsent, older = kNone;
  };
  std::vector<Link> links_;
  std::uint32_t newest_ = kNone, oldest_ = kNone, size_ = 0;
};

}  // namespace vitro
