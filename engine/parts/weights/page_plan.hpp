// Which pages of a mapped file come and go, decided in the order in which they are touched: LRU, and read-ahead as Linux does it
// (mm/filemap.c, mm/readahead.c). A page that is not there brings the window around it. One page of each window is marked: who touches
// it has the next window read, and does not wait for it. Where there is no room left, 32 pages go at once,
// or an eighth of a small room, which would else be emptied.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/recency_list.hpp"
#include "engine/base/status.hpp"

namespace vitro {

// Pages that come together, and those that go for them.
struct PageRead {
  enum class State : std::uint8_t { planned, begun, landed };

  std::vector<std::uint32_t> evict, load;  // in the order decided
  std::vector<std::uint32_t> after_reads;  // before it gives up pages: earlier ones that brought these
  std::vector<std::uint32_t> after_items;  // likewise: earlier items of its phase that compute with these
  // Before it brings pages: earlier ones that have to have given up theirs, which makes room, or gave up the same pages. Who waits may
  // give these up itself: a unit that comes late with its own read holds nobody up.
  std::vector<std::uint32_t> after_evictions;
  std::uint32_t phase = 0;
  bool ahead = false;  // who issues it does not wait for it
  State state = State::planned;
  bool evicted = false;    // what it gives up is gone
  bool forgotten = false;  // begun, and what it brings counts for nothing
  Status status;           // of a landed one
};

// What an item does about a read: it issues it, or waits for one that was issued before.
struct PageStep {
  std::uint32_t read = 0;
  bool issues = false;
};

// Pure bookkeeping, O(1) per touch. Reads are numbered from 1 in the order decided.
class PagePlan {
 public:
  // mapped: of each page of the file, whether it may be read: read-ahead leaves out others. window: pages. Requires: capacity > 0.
  PagePlan(std::vector<bool> mapped, std::uint32_t window, std::uint32_t capacity);

  // Items are numbered anew from 0. Requires: all items of the phase before have computed.
  void begin_phase();
  // The next item touches these pages. What it has to do, in order. Nothing when there is no room for them.
  // Requires: it computes with all of them once that is done.
  std::optional<std::vector<PageStep>> touch(std::span<const std::uint32_t> pages);
  struct Forgotten {
    std::vector<std::uint32_t> pages;  // that were resident, in the order of the file
    std::uint32_t reads = 0;           // that have begun and not landed
  };
  // Nothing is resident any more, and what is under way counts for nothing.
  Forgotten forget();

  PageRead& read(std::uint32_t number) { return reads_.at(number - first_read_); }  // Requires: decided in this phase, or not landed before
  const PageRead& read(std::uint32_t number) const { return reads_.at(number - first_read_); }
  bool landed(std::uint32_t number) const { return number < first_read_ || read(number).state == PageRead::State::landed; }
  bool evicted(std::uint32_t number) const { return landed(number) || read(number).evicted; }

  std::uint32_t phase() const { return phase_; }  // as PageRead::phase
  std::uint32_t capacity() const { return capacity_; }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  struct Page {
    std::uint32_t changed = 0;          // the last read that brought it or gave it up; 0: none that counts
    std::uint32_t phase = 0, item = 0;  // that computed with it last
  };

  bool own(std::uint32_t page) const { return pages_[page].phase == phase_ && pages_[page].item == item_; }
  bool read_around(std::uint32_t page);
  void read_ahead(std::uint32_t page);
  bool wanted(std::uint32_t page) const;
  PageRead& begin_read(bool ahead);
  bool bring(std::uint32_t page, PageRead& read);
  bool give_up_oldest(PageRead& read, std::uint32_t number);
  void depend(PageRead& read, std::uint32_t earlier) const;
  void depend_on_evictions(PageRead& read, std::uint32_t earlier) const;
  void wait_for(std::uint32_t number);
  std::uint32_t newest() const { return first_read_ + static_cast<std::uint32_t>(reads_.size()) - 1; }

  std::vector<bool> mapped_, marked_;
  std::uint32_t window_, capacity_;
  std::uint32_t reclaimed_;  // pages that go together where one has to
  RecencyList resident_;
  std::vector<Page> pages_;
  std::multimap<std::uint32_t, std::uint32_t> earlier_users_;  // page to items of this phase, but for the last: units share pages at the
                                                               // borders of their rows
  std::deque<PageRead> reads_;                                 // but for the first ones, which have landed
  std::uint32_t first_read_ = 1, phase_ = 0, item_ = 0;
  std::uint32_t room_from_ = 0;  // the last read that gave up pages; others may take their place
  std::vector<PageStep> steps_;  // of the item at hand
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace vitro
