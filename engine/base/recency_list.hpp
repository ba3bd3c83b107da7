// Numbers of blocks or pages from the least to the most recently used, with O(1) moves.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/check.hpp"

namespace vitro {

// Uses stand in a line, one behind the other, and a block's last one counts. A linked list would touch four distant places
// for each use of a block among millions; here neighbours that are used together are written together.
class RecencyList {
 public:
  explicit RecencyList(std::uint32_t blocks) : last_(blocks, kAbsent) {}

  bool contains(std::uint32_t block) const { return last_[block] != kAbsent; }
  std::uint32_t size() const { return size_; }
  std::uint32_t oldest() {  // Requires: size() > 0
    release();
    return *oldest_without([](std::uint32_t) { return false; });
  }

  void push_newest(std::uint32_t block) {
    VITRO_CHECK(!contains(block), "a block entered a list twice");
    ++size_;
    append(block);
  }
  void touch(std::uint32_t block) {  // becomes the newest
    VITRO_CHECK(contains(block), "a block was used in a list that it was not in");
    append(block);
  }
  void touch(std::span<const std::uint32_t> blocks) {  // one after the other: the last becomes the newest
    make_room();
    auto use = static_cast<std::uint32_t>(uses_.size());
    uses_.insert(uses_.end(), blocks.begin(), blocks.end());
    for (const std::uint32_t block : blocks) {
      VITRO_CHECK(contains(block), "a block was used in a list that it was not in");
      last_[block] = use++;
    }
  }
  void erase(std::uint32_t block) {
    VITRO_CHECK(contains(block), "a block left a list that it was not in");
    last_[block] = kAbsent;
    --size_;
  }
  // Marks part the line by time, so that nobody has to note when each block was used. What is used from now on comes behind a mark;
  // the last `most` marks are remembered. Requires: most > 0.
  void mark(std::size_t most) {
    marks_.push_back(static_cast<std::uint32_t>(uses_.size()));
    while (marks_.size() > most) marks_.pop_front();
  }
  bool used_since_first_mark(std::uint32_t block) const {  // Requires: contains(block). Without marks: yes
    return marks_.empty() || last_[block] >= marks_.front();
  }

  // A block that searches will come to in a while, so that what the caller knows of it can be requested from memory: what has not been
  // used for longest is in no cache.
  std::optional<std::uint32_t> upcoming() const {
    const std::size_t use = std::size_t{first_} + kUsesAhead;
    return use < uses_.size() ? std::optional(uses_[use]) : std::nullopt;
  }

  // `held` is asked from the oldest on, until it says no. What it holds back is not asked about again before release(): a search among
  // thousands of blocks that a layer has pinned would otherwise pass all of them for each newcomer.
  std::optional<std::uint32_t> oldest_without(const std::function<bool(std::uint32_t)>& held) {
    for (; next_passed_ < passed_.size(); ++next_passed_) {
      const std::uint32_t use = passed_[next_passed_], block = uses_[use];
      if (!counts(use)) continue;
      if (!held(block)) return block;
      passed_[held_++] = use;
    }
    passed_.resize(held_);
    for (; first_ < uses_.size(); ++first_) {
      if (const auto soon = upcoming()) __builtin_prefetch(&last_[*soon]);
      if (!counts(first_)) continue;
      if (!held(uses_[first_])) break;
      passed_.push_back(first_);
    }
    held_ = next_passed_ = static_cast<std::uint32_t>(passed_.size());
    return first_ < uses_.size() ? std::optional(uses_[first_]) : std::nullopt;
  }
  // What was held back may no longer be.
  void release() {
    drop_asked();
    held_ = next_passed_ = 0;
  }

 private:
  static constexpr std::uint32_t kAbsent = ~0u;
  static constexpr std::uint32_t kUsesAhead = 16;  // a few evictions, or some microseconds of a simulation
  // Uses that no longer count: twice as many as there are blocks in the list, and kSpare. Four bytes each, for less work to drop them.
  static constexpr std::size_t kSpentPerBlock = 2, kSpare = 1024;

  bool counts(std::uint32_t use) const { return last_[uses_[use]] == use; }

  void append(std::uint32_t block) {
    make_room();
    last_[block] = static_cast<std::uint32_t>(uses_.size());
    uses_.push_back(block);
  }

  // Leaves in passed_ what is held back and what a search has not come to.
  void drop_asked() {
    passed_.erase(passed_.begin() + held_, passed_.begin() + next_passed_);
    next_passed_ = held_;
  }

  void make_room() {
    if (uses_.size() >= (1 + kSpentPerBlock) * std::size_t{size_} + kSpare) close_ranks();
  }

  // Drops the uses that no longer count. Requires: more than two thirds of them do not, so that a use costs O(1) on average.
  // Apart, so that those who only append do not pay for its registers.
  [[gnu::noinline]] void close_ranks() {
    std::uint32_t kept = 0, next = first_;  // local, since stores to members of their type would have them loaded anew
    auto mark = marks_.begin();
    const auto keep = [&kept, uses = uses_.data(), last_use = last_.data()](std::uint32_t use) {
      // Without a branch: whether a use counts is as good as random.
      const std::uint32_t block = uses[use], last = last_use[block];
      last_use[block] = last == use ? kept : last;
      uses[kept] = block;
      kept += last == use;
    };
    drop_asked();
    auto passed = passed_.begin();
    for (;; ++mark) {
      const auto end = mark != marks_.end() ? *mark : static_cast<std::uint32_t>(uses_.size());
      for (; passed != passed_.end() && *passed < end; ++passed) keep(*passed);
      for (; next < end; ++next) keep(next);
      if (mark == marks_.end()) break;
      *mark = kept;
    }
    uses_.resize(kept);
    passed_.clear();
    first_ = held_ = next_passed_ = 0;
  }

  std::vector<std::uint32_t> uses_;    // blocks
  std::vector<std::uint32_t> last_;    // by block: its place in uses_
  std::deque<std::uint32_t> marks_;    // places in uses_, ascending
  // Uses before first_ that counted when a search passed them, since they were held back: to held_ they are still, and a search goes on at
  // next_passed_. Between the two is nothing.
  std::vector<std::uint32_t> passed_;
  std::uint32_t held_ = 0, next_passed_ = 0;
  std::uint32_t first_ = 0, size_ = 0;
};

}  // namespace vitro
