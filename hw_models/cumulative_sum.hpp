// An amount that only grows, such as bytes moved, as a function of time: what passed in any window, and its peak rate.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/base/units.hpp"

namespace vitro::hw {

// Piecewise linear and exact until there are `most` points; then neighbours are merged, so that memory stays bounded, windows are exact to
// the distance of points (at most 4/most of the time that has passed) and a peak is a mean over at least that.
class CumulativeSum {
 public:
  static constexpr std::size_t kMaxPoints = 1 << 16;
  static constexpr std::size_t kForWindows = 1 << 13;  // of sums that nobody asks for a peak, and only for long windows
  static constexpr Picoseconds kPeakWindow{1'000'000'000};  // what a power meter or a bandwidth counter would average over

  explicit CumulativeSum(std::size_t most = kMaxPoints) : most_(most) {}

  // `amount` passed evenly over [begin, end). Requires: begin is not before the end of the interval before.
  void add(Picoseconds begin, Picoseconds end, double amount) {
    Point& last = points_.back();
    VITRO_CHECK(begin >= last.when && end >= begin, "intervals of a cumulative sum come in order");
    if (end >= merges_until_) [[unlikely]]
      return add_point(begin, end, amount);
    last = {end, last.total + amount};  // as nearly always in a long run
  }

  double sum(Picoseconds begin, Picoseconds end) const { return at(end) - at(begin); }
  std::size_t points() const { return points_.size(); }  // what it takes to remember them

  // Per second; over the whole window when it is shorter than kPeakWindow.
  double peak_rate(Picoseconds begin, Picoseconds end) const {
    double peak = 0;
    const Picoseconds width = std::min(kPeakWindow, end - begin);
    for (Picoseconds from = begin; width.count() > 0 && from + width <= end; from += width) peak = std::max(peak, sum(from, from + width));
    return width.count() > 0 ? peak / to_seconds(width) : 0;
  }

 private:
  struct Point {
    Picoseconds when{0};
    double total = 0;
  };

  const Point& last() const { return points_.back(); }

  double at(Picoseconds when) const {
    const auto after = std::upper_bound(points_.begin(), points_.end(), when, [](Picoseconds t, const Point& p) { return t < p.when; });
    if (after == points_.begin()) return 0;
    const Point& a = *std::prev(after);
    if (after == points_.end()) return a.total;
    const double share = static_cast<double>((when - a.when).count()) / static_cast<double>((after->when - a.when).count());
    return a.total + (after->total - a.total) * share;
  }

  // Apart: what is called several times for each simulated call stays short.
  [[gnu::noinline]] void add_point(Picoseconds begin, Picoseconds end, double amount) {
    if (begin > last().when) push({begin, last().total});
    if (end == last().when && points_.size() > 1) {  // at once
      points_.back().total += amount;
      return;
    }
    push({end, last().total + amount});
  }

  [[gnu::always_inline]] void push(Point point) {
    if (point.when < merges_until_) {
      points_.back() = point;
      return;
    }
    merges_until_ = points_.back().when + distance_;
    points_.push_back(point);
    if (points_.size() == most_) [[unlikely]]
      thin_out();
  }

  // In place: what was reserved once is enough for ever.
  [[gnu::noinline]] void thin_out() {
    distance_ = (points_.back().when - points_.front().when) / static_cast<std::int64_t>(most_ / 4);
    std::size_t kept = 0;
    for (std::size_t i = 1; i + 1 < points_.size(); ++i) {
      if (points_[i].when - points_[kept].when >= distance_) points_[++kept] = points_[i];
    }
    points_[++kept] = points_.back();
    points_.resize(kept + 1);
    merges_until_ = points_[kept - 1].when + distance_;
  }

  std::size_t most_;
  std::vector<Point> points_{Point{}};
  Picoseconds distance_{0}, merges_until_{0};  // what ends before the latter moves the last point
};

}  // namespace vitro::hw
