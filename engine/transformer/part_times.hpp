// How long the policy waited for each part of its steps, on its own clock. Parts follow each other; what is done between them (copies of
// keys and values, rows of an embedding in flash) is no part's.
#pragma once
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/graph/lowering.hpp"
#include "engine/machine/clock.hpp"

namespace vitro {

// combine: the weighted sum of experts, and the residual; head: the last norm, the output matrix, and drawing of its logits
enum class Part : std::uint8_t { attention, router, experts, combine, ffn, head, other };
inline constexpr std::array<std::string_view, 7> kPartNames{"attention", "router", "experts", "combine", "ffn", "head", "other"};

using PartTimes = std::array<Picoseconds, kPartNames.size()>;

// What came after `before`.
inline PartTimes since(PartTimes now, const PartTimes& before) {
  for (std::size_t part = 0; part < now.size(); ++part) now[part] -= before[part];
  return now;
}

// When the policy waited for a part: what else was measured in that time is the part's.
struct PartWindow {
  Part part{};
  Picoseconds begin{}, end{};
};

// Windows of a prompt's parts, in their order. Beyond kMost nothing is kept, as a prompt of so many steps is told apart by none of them.
class PartWindows {
 public:
  static constexpr std::size_t kMost = 1 << 16;

  void add(const PartWindow& window) {
    if (!keeps_) return;
    keeps_ = windows_.size() < kMost;
    if (!keeps_) return windows_.clear();
    windows_.push_back(window);
  }
  // Those so far; nothing is kept after it. Empty: there were too many.
  std::vector<PartWindow> take() {
    keeps_ = false;
    return std::move(windows_);
  }

 private:
  std::vector<PartWindow> windows_;
  bool keeps_ = true;
};

Part part_of(const Phase& phase, const OperatorGraph& graph);

// Adds the time of its own life to a part's, and notes when that was.
class PartTimer {
 public:
  PartTimer(const Clock& clock, PartTimes& times, PartWindows& windows, Part part)
      : clock_(clock), sum_(times[static_cast<std::size_t>(part)]), windows_(windows), part_(part), begin_(clock.now()) {}
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;
  ~PartTimer() {
    const Picoseconds end = clock_.now();
    sum_ += end - begin_;
    windows_.add({part_, begin_, end});
  }

 private:
  const Clock& clock_;
  Picoseconds& sum_;
  PartWindows& windows_;
  const Part part_;
  const Picoseconds begin_;
};

}  // namespace vitro
