// IndexListPool: lists of indices that are made and dropped thousands of times per token, with the memory of those that nobody holds any
// more.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vitro {

// Lists come to their ends nearly in the order in which they were taken, so it looks at one: the one that was taken longest ago.
// The executor's thread alone takes lists. A holder on another thread drops its list before it answers.
class IndexListPool {
 public:
  using List = std::shared_ptr<std::vector<std::uint32_t>>;
  static constexpr std::size_t kKept = 512;      // lists that it remembers; beyond them each is made anew
  static constexpr std::size_t kLargest = 1024;  // indices; the memory of a larger list is given back when the list is taken again

  // Its elements are whatever they were. What was taken is nobody else's until the last holder drops it.
  List take() {
    if (next_ == lists_.size()) next_ = 0;
    if (next_ < lists_.size() && lists_[next_].use_count() == 1) {
      std::atomic_thread_fence(std::memory_order_acquire);  // behind what its last holder did
      if (lists_[next_]->capacity() > kLargest) *lists_[next_] = std::vector<std::uint32_t>();  // = {} would keep the memory
      if (next_ + kAhead < lists_.size()) __builtin_prefetch(lists_[next_ + kAhead].get());  // nobody has touched it for long
      return lists_[next_++];
    }
    List made = std::make_shared<std::vector<std::uint32_t>>();
    if (lists_.size() < kKept) {
      lists_.insert(lists_.begin() + static_cast<std::ptrdiff_t>(next_), made);  // behind the one taken last
    } else {
      lists_[next_] = made;  // whoever keeps the old one frees it
    }
    ++next_;
    return made;
  }

  std::size_t kept() const { return lists_.size(); }

 private:
  static constexpr std::size_t kAhead = 4;

  std::vector<List> lists_;  // from next_ on, and then from the first on: by when they were taken
  std::size_t next_ = 0;
};

}  // namespace vitro
