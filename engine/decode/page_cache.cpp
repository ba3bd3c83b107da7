#include "engine/decode/page_cache.hpp"

#include "engine/base/check.hpp"

namespace vitro {

PageCache::PageCache(std::uint32_t pages, std::uint32_t capacity) : links_(pages), capacity_(capacity) {
  VITRO_CHECK(capacity > 0, "a cache without room");
}

void PageCache::touch(std::uint32_t page) {
  if (newest_ == page) return;
  unlink(page);
  push_newest(page);
}

std::uint32_t PageCache::insert(std::uint32_t page) {
  VITRO_CHECK(!contains(page), "inserted twice");
  std::uint32_t victim = kNone;
  if (size_ == capacity_) {
    victim = oldest_;
    unlink(victim);
    links_[victim].resident = false;
    --size_;
  }
  links_[page].resident = true;
  ++size_;
  push_newest(page);
  return victim;
}

void PageCache::unlink(std::uint32_t page) {
  Link& link = links_[page];
  (link.newer == kNone ? newest_ : links_[link.newer].older) = link.older;
  (link.older == kNone ? oldest_ : links_[link.older].newer) = link.newer;
}

void PageCache::push_newest(std::uint32_t page) {
  links_[page].newer = kNone;
  links_[page].older = newest_;
  (newest_ == kNone ? oldest_ : links_[newest_].newer) = page;
  newest_ = page;
}

}  // namespace vitro
