#include "engine/parts/weights/page_plan.hpp"

#include <algorithm>
#include <utility>

namespace vitro {
namespace {

constexpr std::uint32_t kReclaimed = 32;  // SWAP_CLUSTER_MAX in include/linux/swap.h

}  // namespace

PagePlan::PagePlan(std::vector<bool> mapped, std::uint32_t window, std::uint32_t capacity)
    : mapped_(std::move(mapped)),
      marked_(mapped_.size()),
      window_(window),
      capacity_(capacity),
      reclaimed_(std::clamp<std::uint32_t>(capacity / 8, 1, kReclaimed)),
      resident_(static_cast<std::uint32_t>(mapped_.size())),
      pages_(mapped_.size()) {
  VITRO_CHECK(capacity > 0, "a page cache without room");
}

void PagePlan::begin_phase() {
  ++phase_;
  item_ = 0;
  earlier_users_.clear();
  while (!reads_.empty() && reads_.front().state == PageRead::State::landed) reads_.pop_front(), ++first_read_;
}

std::optional<std::vector<PageStep>> PagePlan::touch(std::span<const std::uint32_t> pages) {
  steps_.clear();
  for (const std::uint32_t page : pages) {
    if (resident_.contains(page)) {
      ++hits_;
      resident_.touch(page);
    } else {
      ++misses_;
      if (!read_around(page)) return std::nullopt;
    }
    if (pages_[page].phase == phase_ && !own(page)) earlier_users_.emplace(page, pages_[page].item);
    pages_[page].phase = phase_;
    pages_[page].item = item_;
    if (marked_[page]) {  // first what comes, then the wait for what is touched
      marked_[page] = false;
      read_ahead(page);
    }
    wait_for(pages_[page].changed);
  }
  ++item_;
  return std::exchange(steps_, {});
}

// do_sync_mmap_readahead: half of the window lies before the page, and a quarter of it behind the mark.
bool PagePlan::read_around(std::uint32_t page) {
  const std::uint32_t first = page > window_ / 2 ? page - window_ / 2 : 0;
  const std::uint32_t end = std::min<std::uint32_t>(first + window_, static_cast<std::uint32_t>(pages_.size()));
  PageRead& read = begin_read(false);
  if (!bring(page, read)) return false;
  std::optional<std::uint32_t> mark;
  for (std::uint32_t p = first; p < end; ++p) {
    if (!wanted(p)) continue;
    if (!bring(p, read)) break;
    if (!mark && window_ >= 4 && p >= first + window_ - window_ / 4) mark = p;
  }
  if (mark) marked_[*mark] = true;
  resident_.touch(page);
  steps_.push_back({newest(), true});
  return true;
}

// page_cache_async_ra: a window from the first page that is not there, which is marked in turn.
void PagePlan::read_ahead(std::uint32_t page) {
  const auto size = static_cast<std::uint32_t>(pages_.size());
  std::uint32_t first = page + 1;
  const std::uint32_t farthest = std::min(first + window_, size);
  while (first < farthest && resident_.contains(first)) ++first;
  if (first == farthest) return;
  PageRead& read = begin_read(true);
  for (std::uint32_t p = first; p < std::min(first + window_, size); ++p) {
    if (wanted(p) && !bring(p, read)) break;
  }
  if (read.load.empty()) {
    reads_.pop_back();
    return;
  }
  marked_[read.load.front()] = true;
  steps_.push_back({newest(), true});
}

// By the newest read, which does not bring again what it gives up.
bool PagePlan::wanted(std::uint32_t page) const { return mapped_[page] && !resident_.contains(page) && pages_[page].changed != newest(); }

PageRead& PagePlan::begin_read(bool ahead) {
  PageRead& read = reads_.emplace_back();
  read.phase = phase_;
  read.ahead = ahead;
  return read;
}

// False: all that is there is what the item itself computes with, or what this read brings.
bool PagePlan::bring(std::uint32_t page, PageRead& read) {
  const std::uint32_t number = newest();
  if (resident_.size() == capacity_) {
    std::uint32_t gone = 0;
    while (gone < reclaimed_ && give_up_oldest(read, number)) ++gone;
    if (gone == 0) return false;
    room_from_ = number;
  } else if (room_from_ != number) {
    depend_on_evictions(read, room_from_);
  }
  depend_on_evictions(read, pages_[page].changed);  // it is not there, so that one gave it up
  pages_[page].changed = number;
  resident_.push_newest(page);
  read.load.push_back(page);
  return true;
}

// What was just touched has a second chance.
bool PagePlan::give_up_oldest(PageRead& read, std::uint32_t number) {
  std::uint32_t victim = resident_.oldest();
  for (std::uint32_t tried = 0; own(victim) || pages_[victim].changed == number; victim = resident_.oldest()) {
    if (++tried > resident_.size()) return false;
    resident_.touch(victim);
  }
  Page& gone = pages_[victim];
  resident_.erase(victim);
  marked_[victim] = false;
  read.evict.push_back(victim);
  if (gone.phase == phase_) {
    if (read.after_items.empty() || read.after_items.back() != gone.item) read.after_items.push_back(gone.item);
    const auto [first, last] = earlier_users_.equal_range(victim);
    for (auto user = first; user != last; ++user) read.after_items.push_back(user->second);
  }
  depend(read, gone.changed);
  gone.changed = number;
  return true;
}

void PagePlan::depend(PageRead& read, std::uint32_t earlier) const {
  if (!landed(earlier) && (read.after_reads.empty() || read.after_reads.back() != earlier)) read.after_reads.push_back(earlier);
}

void PagePlan::depend_on_evictions(PageRead& read, std::uint32_t earlier) const {
  if (!evicted(earlier) && std::ranges::find(read.after_evictions, earlier) == read.after_evictions.end()) {
    read.after_evictions.push_back(earlier);
  }
}

void PagePlan::wait_for(std::uint32_t number) {
  if (landed(number)) return;
  const bool waited_for = !read(number).ahead;  // by who issues it
  const bool known = std::ranges::any_of(steps_, [&](const PageStep& step) { return step.read == number && (waited_for || !step.issues); });
  if (!known) steps_.push_back({number, false});
}

PagePlan::Forgotten PagePlan::forget() {
  Forgotten gone;
  for (std::uint32_t page = 0; page < pages_.size(); ++page) {
    if (!resident_.contains(page)) continue;
    gone.pages.push_back(page);
    resident_.erase(page);
  }
  pages_.assign(pages_.size(), {});
  marked_.assign(marked_.size(), false);
  for (PageRead& read : reads_) {
    if (read.state == PageRead::State::planned) read.state = PageRead::State::landed;
    read.forgotten = read.state != PageRead::State::landed;
    gone.reads += read.forgotten;
  }
  return gone;
}

}  // namespace vitro
