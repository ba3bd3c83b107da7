// WorthOrder: which resident block is worth least.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace vitro {

// A lazy min-heap: it has what blocks were worth when they were last looked at, which is at most what they are worth now. So a block whose
// worth rises costs nothing here: only what comes to the top is compared with its present worth, and goes down again if that has risen.
// Worths are compared with <; of equals the lower number comes first. Deterministic.
template <class Worth>
class WorthOrder {
 public:
  explicit WorthOrder(std::uint32_t blocks) : stays_(blocks) {}

  // Requires: not resident.
  void insert(std::uint32_t block, Worth worth) {
    ++resident_;
    ++stays_[block];
    put({std::move(worth), block, stays_[block]});
  }
  // Requires: resident.
  void erase(std::uint32_t block) {
    --resident_;
    ++stays_[block];
  }
  // It is worth no more than this from now on. Requires: resident.
  void fall(std::uint32_t block, Worth worth) {
    stays_[block] += 2;
    put({std::move(worth), block, stays_[block]});
  }
  bool contains(std::uint32_t block) const { return stays_[block] % 2 == 1; }

  // The resident block that is worth least, of those that `held` does not hold back. What was held back is not asked about again before
  // release(). worth(block): its present worth, which has not fallen but by fall().
  template <class WorthOf>
  std::optional<std::uint32_t> least(WorthOf worth, const std::function<bool(std::uint32_t)>& held) {
    while (!heap_.empty()) {
      const Entry& top = heap_.front();
      if (top.stay != stays_[top.block]) {
        take_top();
      } else if (Worth now = worth(top.block); top.worth < now) {
        Entry risen = take_top();
        risen.worth = std::move(now);
        put(std::move(risen));
      } else if (held(top.block)) {
        held_.push_back(take_top());
      } else {
        return top.block;
      }
    }
    return std::nullopt;
  }
  void release() {
    for (Entry& entry : held_) put(std::move(entry));
    held_.clear();
  }

 private:
  struct Entry {
    Worth worth;
    std::uint32_t block = 0, stay = 0;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  Entry take_top() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    Entry top = std::move(heap_.back());
    heap_.pop_back();
    return top;
  }
  void put(Entry entry) {
    if (heap_.size() > 2 * resident_ + 64) {
      std::erase_if(heap_, [this](const Entry& old) { return old.stay != stays_[old.block]; });
      std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
    heap_.push_back(std::move(entry));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  std::vector<std::uint32_t> stays_;  // of a block: counts when it comes and when it goes, so it is resident where that is odd
  std::uint32_t resident_ = 0;
  std::vector<Entry> heap_, held_;
};

}  // namespace vitro
