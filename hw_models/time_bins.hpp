// An amount spread over time, such as bytes or joules, kept in bins of one millisecond: memory grows with simulated
// time and not with events, and a rate over one bin is what a power meter or a bandwidth counter would show.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/base/units.hpp"

namespace vitro::hw {

class TimeBins {
 public:
  static constexpr Picoseconds kBin{1'000'000'000};

  void add(Picoseconds begin, Picoseconds end, double amount) {
    VITRO_CHECK(begin.count() >= 0 && end >= begin, "an interval ends before it begins");
    total_ += amount;
    const auto first = static_cast<std::size_t>(begin / kBin), last = static_cast<std::size_t>(end / kBin);
    if (bins_.size() <= last) bins_.resize(last + 1, 0);
    if (first == last || begin == end) {
      bins_[first] += amount;
      return;
    }
    const double rate = amount / static_cast<double>((end - begin).count());
    for (std::size_t i = first; i <= last; ++i) bins_[i] += rate * overlap(i, begin, end);
  }

  // Bins at the edges of the window count by the share of them inside.
  double sum(Picoseconds begin, Picoseconds end) const {
    double sum = 0;
    for (std::size_t i = index(begin); i < bins_.size() && kBin * static_cast<std::int64_t>(i) < end; ++i) {
      sum += bins_[i] * overlap(i, begin, end) / static_cast<double>(kBin.count());
    }
    return sum;
  }

  // Largest amount of one bin that lies in the window, per second.
  double peak_rate(Picoseconds begin, Picoseconds end) const {
    double peak = 0;
    for (std::size_t i = index(begin); i < bins_.size() && kBin * static_cast<std::int64_t>(i) < end; ++i) peak = std::max(peak, bins_[i]);
    return peak / to_seconds(kBin);
  }

  double total() const { return total_; }

 private:
  static std::size_t index(Picoseconds t) { return static_cast<std::size_t>(std::max(t, Picoseconds(0)) / kBin); }
  static double overlap(std::size_t bin, Picoseconds begin, Picoseconds end) {
    const Picoseconds from = kBin * static_cast<std::int64_t>(bin);
    return static_cast<double>(std::max(Picoseconds(0), std::min(end, from + kBin) - std::max(begin, from)).count());
  }

  std::vector<double> bins_;
  double total_ = 0;
};

}  // namespace vitro::hw
