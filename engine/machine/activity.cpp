#include "engine/machine/activity.hpp"

#include <algorithm>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

double share(const IntervalSet& set, Picoseconds begin, Picoseconds end) {
  VITRO_CHECK(begin < end, "a share needs a window");
  return static_cast<double>(set.total().count()) / static_cast<double>((end - begin).count());
}

}  // namespace

void IntervalSet::add(Picoseconds begin, Picoseconds end) {
  if (begin >= end) return;
  // First interval that does not end before `begin`: it and its successors up to `end` melt into one.
  auto first = intervals_.end();
  while (first != intervals_.begin() && std::prev(first)->end >= begin) --first;
  auto last = first;
  while (last != intervals_.end() && last->begin <= end) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
    ++last;
  }
  if (first == last) {
    intervals_.insert(first, {begin, end});
  } else {
    *first = {begin, end};
    intervals_.erase(std::next(first), last);
  }
}

Picoseconds IntervalSet::total() const {
  Picoseconds sum{0};
  for (const Interval& interval : intervals_) sum += interval.end - interval.begin;
  return sum;
}

IntervalSet IntervalSet::clipped(Picoseconds begin, Picoseconds end) const {
  IntervalSet window;
  window.add(begin, end);
  return intersected(window);
}

IntervalSet IntervalSet::united(const IntervalSet& other) const {
  std::vector<Interval> all;
  std::merge(intervals_.begin(), intervals_.end(), other.intervals_.begin(), other.intervals_.end(), std::back_inserter(all),
             [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  IntervalSet out;
  for (const Interval& interval : all) out.add(interval.begin, interval.end);
  return out;
}

IntervalSet IntervalSet::intersected(const IntervalSet& other) const {
  IntervalSet out;
  for (auto a = intervals_.begin(), b = other.intervals_.begin(); a != intervals_.end() && b != other.intervals_.end();) {
    out.add(std::max(a->begin, b->begin), std::min(a->end, b->end));
    if (a->end < b->end) {
      ++a;
    } else {
      ++b;
    }
  }
  return out;
}

IntervalSet IntervalSet::without(const IntervalSet& other) const {
  if (intervals_.empty()) return {};
  // The gaps of `other` within our own reach, then the intersection with them.
  IntervalSet gaps;
  Picoseconds from = intervals_.front().begin;
  for (const Interval& hole : other.intervals_) {
    gaps.add(from, hole.begin);
    from = std::max(from, hole.end);
  }
  gaps.add(from, intervals_.back().end);
  return intersected(gaps);
}

IntervalSet Activity::any_unit(Picoseconds begin, Picoseconds end) const {
  IntervalSet out;
  for (const IntervalSet& unit : units_) out = out.united(unit.clipped(begin, end));
  return out;
}

IntervalSet Activity::storage(Picoseconds begin, Picoseconds end) const {
  IntervalSet out = storage_.clipped(begin, end);
  if (outstanding_ > 0) out.add(std::max(storage_since_, begin), end);
  return out;
}

double Activity::io_share(Picoseconds begin, Picoseconds end) const {
  return share(storage(begin, end).without(any_unit(begin, end)), begin, end);
}

double Activity::overlap_share(Picoseconds begin, Picoseconds end) const {
  return share(storage(begin, end).intersected(any_unit(begin, end)), begin, end);
}

double Activity::utilization(std::size_t unit, Picoseconds begin, Picoseconds end) const {
  return share(units_.at(unit).clipped(begin, end), begin, end);
}

double Activity::utilization(const std::vector<std::size_t>& units, Picoseconds begin, Picoseconds end) const {
  VITRO_CHECK(!units.empty(), "the mean of no units");
  double sum = 0;
  for (const std::size_t unit : units) sum += utilization(unit, begin, end);
  return sum / static_cast<double>(units.size());
}

}  // namespace vitro
