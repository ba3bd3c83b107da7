// A set of small numbers that finds the next member at or behind a number in a few steps, however sparse it is.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace vitro {

class SlotSet {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  // Of numbers below `count`; at first all of them are members, or none.
  explicit SlotSet(std::uint32_t count, bool full = true) {
    for (std::uint32_t n = count;;) {
      std::vector<std::uint64_t>& words = levels_.emplace_back((n + 63) / 64, full ? ~std::uint64_t{0} : 0);
      if (full && n % 64 != 0) words.back() = (std::uint64_t{1} << n % 64) - 1;
      if (words.size() <= 1) return;
      n = static_cast<std::uint32_t>(words.size());
    }
  }

  bool contains(std::uint32_t n) const { return (levels_[0][n / 64] >> n % 64 & 1) != 0; }

  void insert(std::uint32_t n) {
    for (std::vector<std::uint64_t>& words : levels_) {
      words[n / 64] |= std::uint64_t{1} << n % 64;
      n /= 64;
    }
  }

  void erase(std::uint32_t n) {
    for (std::vector<std::uint64_t>& words : levels_) {
      words[n / 64] &= ~(std::uint64_t{1} << n % 64);
      if (words[n / 64] != 0) return;
      n /= 64;
    }
  }

  // The least member that is not below `from`, or kNone.
  std::uint32_t next(std::uint32_t from) const {
    // Up until a word holds one, then down to it.
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const std::uint32_t word = from / 64;
      if (word >= levels_[level].size()) return kNone;
      if (const std::uint64_t left = levels_[level][word] >> from % 64; left != 0) {
        std::uint32_t found = from + static_cast<std::uint32_t>(std::countr_zero(left));
        while (level-- > 0) found = 64 * found + static_cast<std::uint32_t>(std::countr_zero(levels_[level][found]));
        return found;
      }
      from = word + 1;
    }
    return kNone;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;  // bit i of a level: word i of the level below it is not empty
};

}  // namespace vitro
