// How long the policy waited for each part of its steps, on its own clock. Parts follow each other; what is done between them (copies of
// keys and values, rows of an embedding in flash) is no part's.
#pragma once
#include <array>
#include <string_view>

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

Part part_of(const Phase& phase, const OperatorGraph& graph);

// Adds the time of its own life to a part's.
class PartTimer {
 public:
  PartTimer(const Clock& clock, PartTimes& times, Part part)
      : clock_(clock), sum_(times[static_cast<std::size_t>(part)]), begin_(clock.now()) {}
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;
  ~PartTimer() { sum_ += clock_.now() - begin_; }

 private:
  const Clock& clock_;
  Picoseconds& sum_;
  const Picoseconds begin_;
};

}  // namespace vitro
