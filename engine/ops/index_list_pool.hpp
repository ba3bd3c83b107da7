// IndexListPool: lists of indices that are made and dropped thousands of times per token, with the memory of those that nobody holds any
// more.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vitro {

// One thread takes lists; any may drop them. Lists come to their ends nearly in the order in which they were taken, so it looks at one: the
// one that was taken longest ago.
class IndexListPool {
 public:
  using List = std::shared_ptr<std::vector<std::uint32_t>>;
  static constexpr std::size_t kKept = 1024;  // lists that it remembers; beyond them each is made anew

  // Its elements are whatever they were. What was taken is nobody else's until the last holder drops it.
  List take() {
    if (next_ == lists_.size()) next_ = 0;
    if (next_ < lists_.size() && lists_[next_].use_count() == 1) {
      std::atomic_thread_fence(std::memory_order_acquire);  // behind what its last holder did
      return lists_[next_++];
    }
    List made = std::make_shared<std::vector<std::uint32_t>>();
    if (lists_.size() < kKept) {
      lists_.push_back(made);
    } else {
      ++next_;  // a holder that keeps its list must not be asked again and again
    }
    return made;
  }

  std::size_t kept() const { return lists_.size(); }

 private:
  std::vector<List> lists_;
  std::size_t next_ = 0;
};

}  // namespace vitro
