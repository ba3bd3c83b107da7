// When the units and the storage of a machine were busy, and what follows from it. The host uses it; the simulator sums up the same
// quantities in bounded memory (sim/activity_meter.hpp), and a test holds the two against each other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro {

struct Interval {
  Picoseconds begin{0}, end{0};
  friend bool operator==(const Interval&, const Interval&) = default;
};

// A set of points in time: sorted, disjoint, half-open intervals. Neighbours that touch are one.
class IntervalSet {
 public:
  // Cheap when intervals come roughly in order; any order is right. Empty intervals add nothing.
  void add(Picoseconds begin, Picoseconds end);
  const std::vector<Interval>& intervals() const { return intervals_; }
  Picoseconds total() const;

  IntervalSet clipped(Picoseconds begin, Picoseconds end) const;
  IntervalSet united(const IntervalSet& other) const;
  IntervalSet intersected(const IntervalSet& other) const;
  IntervalSet without(const IntervalSet& other) const;

 private:
  std::vector<Interval> intervals_;
};

// Not thread-safe as a whole; on host each worker adds to its own unit's set, and the policy thread to the storage's.
// The queries belong to the policy thread, when no operation is in flight.
class Activity {
 public:
  explicit Activity(std::size_t units) : units_(units) {}

  void unit_busy(std::size_t unit, Picoseconds begin, Picoseconds end) { units_[unit].add(begin, end); }
  // A request is outstanding from the policy's submission to its completion; each of a vector read by itself.
  void storage_begin(Picoseconds at) {
    if (outstanding_++ == 0) storage_since_ = at;
  }
  void storage_end(Picoseconds at) {
    if (--outstanding_ == 0) storage_.add(storage_since_, at);
  }
  const IntervalSet& busy(std::size_t unit) const { return units_.at(unit); }
  std::uint32_t storage_outstanding() const { return outstanding_; }

  // Shares of the window [begin, end). Requires: begin < end.
  double io_share(Picoseconds begin, Picoseconds end) const;       // storage outstanding and every unit idle
  double overlap_share(Picoseconds begin, Picoseconds end) const;  // storage outstanding and some unit busy
  double utilization(std::size_t unit, Picoseconds begin, Picoseconds end) const;
  double utilization(const std::vector<std::size_t>& units, Picoseconds begin, Picoseconds end) const;  // mean

 private:
  IntervalSet any_unit(Picoseconds begin, Picoseconds end) const;
  IntervalSet storage(Picoseconds begin, Picoseconds end) const;

  std::vector<IntervalSet> units_;
  IntervalSet storage_;
  std::uint32_t outstanding_ = 0;
  Picoseconds storage_since_{0};
};

}  // namespace vitro
