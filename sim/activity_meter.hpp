// Meter: what the processors and the storage of a simulated machine do, summed up as it happens. What it keeps is bounded, so
// a run may go on for as long as it likes. A test holds its io_share against that of engine/machine/activity.hpp.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/base/units.hpp"
#include "hw_models/cumulative_sum.hpp"
#include "hw_models/power/power.hpp"

namespace vitro::sim {

// What the system takes a core for.
enum class SystemWork : std::uint8_t { issue_io, policy, take_result };

// How long something was the case. A time before what was settled counts as that.
class Stopwatch {
 public:
  explicit Stopwatch(std::size_t most_points = hw::CumulativeSum::kMaxPoints) : seconds_(most_points) {}

  void set(bool on, Picoseconds at) {
    if (on == on_) return;
    settle(at);
    on_ = on;
  }
  void settle(Picoseconds at) {  // counts what has passed so far
    if (at < since_) return;
    if (on_) seconds_.add(since_, at, to_seconds(at - since_));
    since_ = at;
  }
  bool on() const { return on_; }
  double seconds(Picoseconds begin, Picoseconds end) const { return seconds_.sum(begin, end); }
  std::size_t points() const { return seconds_.points(); }

 private:
  bool on_ = false;
  Picoseconds since_{0};
  hw::CumulativeSum seconds_;
};

// System work and the beginning of storage may be told ahead of the devices' time (the policy's core is booked in advance); all
// else is told when it happens. A time before what was settled counts as that.
class Meter {
 public:
  explicit Meter(std::size_t processors) : processors_(processors), draws_(processors) {}

  // From the first call that begins to the end of the last: what a processor is told twice changes nothing.
  void kernel_begins(std::size_t processor, Picoseconds at);
  void kernel_ends(std::size_t processor, Picoseconds at);
  // Drivers and policy. Requires: what a processor is told does not begin before the end of what it was told before.
  void system_work(std::size_t processor, Picoseconds begin, Picoseconds end);
  // Requests are outstanding, from the policy's submission to their completion: `requests` of them that begin and end together.
  void storage_begins(Picoseconds at, std::uint32_t requests = 1);
  void storage_ends(Picoseconds at, std::uint32_t requests = 1);
  void set_draw(std::size_t processor, hw::PowerDraw draw, Picoseconds at);  // from now on; not while it runs a call
  // Of a call that ended and lasted from `begin` to `end`, it computed for `time`, and waited else. Until it is told, it waited.
  void computed(std::size_t processor, Picoseconds begin, Picoseconds end, Picoseconds time);

  const hw::PowerDraw& draw(std::size_t processor) const { return processors_[processor].draw; }  // as it was set last
  bool runs_kernel(std::size_t processor) const { return processors_[processor].kernel; }
  std::uint32_t storage_outstanding() const { return outstanding_; }  // those that begin later among them

  // All that began or ended until `at` is in the sums. Queries speak of windows that are settled.
  void settle(Picoseconds at);
  double io_only_seconds(Picoseconds begin, Picoseconds end) const { return io_only_.seconds(begin, end); }  // and no kernel runs
  double busy_seconds(std::size_t processor, Picoseconds begin, Picoseconds end) const;                      // with kernels or system work
  double joules(Picoseconds begin, Picoseconds end) const;                                                   // of all processors
  // Of one. They add up to the joules of all, in windows of long runs to what their sums resolve.
  double joules(std::size_t processor, Picoseconds begin, Picoseconds end) const;
  std::size_t points() const;  // remembered by all sums together

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Interval {
    Picoseconds begin{0}, end{0};
  };
  struct Processor {
    bool kernel = false;
    bool system = false;
    std::deque<Interval> booked;  // system work that has not ended, in order and apart
    std::size_t edge = kNone;     // its place in edges_
    hw::PowerDraw draw;
    Stopwatch busy;
    hw::CumulativeSum drawn{hw::CumulativeSum::kForWindows};  // joules but for the next two
    Picoseconds drawn_until{0};      // what is in the sum
    hw::CumulativeSum computing;     // joules beyond those of waiting
    hw::CumulativeSum collapsed;     // joules that it would have leaked, had its rail been on
    Picoseconds waits_since{0};      // while it is not busy
    Picoseconds collapsed_until{0};  // what is in the sum
    Picoseconds next_edge() const {  // of its system work
      return booked.empty() ? Picoseconds::max() : system ? booked.front().end : booked.front().begin;
    }
  };

  Picoseconds advance(Picoseconds to);  // applies what is due; returns the later of `to` and what was settled before
  void turn(std::size_t processor);     // the next edge of its system work
  void count_joules(Picoseconds at);
  void count_drawn(std::size_t processor, Picoseconds at);
  void count_storage(std::int32_t change);  // now
  void update(std::size_t processor, Picoseconds at);
  static void count_collapsed(Processor& processor, Picoseconds at);
  void note_edge(std::size_t processor) { edges_[processors_[processor].edge].when = processors_[processor].next_edge(); }
  void expect_edges(std::size_t processor);  // from now on

  std::vector<Processor> processors_;
  std::vector<double> draws_;  // watts of each processor, as it is
  struct Edge {
    Picoseconds when;
    std::size_t processor;
  };
  std::vector<Edge> edges_;                     // the next one of each processor that ever had system work: few have
  std::deque<Picoseconds> storage_begins_;      // ahead of time, in order
  Picoseconds next_edge_ = Picoseconds::max();  // nothing that was told ahead happens before
  Picoseconds settled_{0};
  std::uint32_t kernels_ = 0, outstanding_ = 0;
  std::int32_t storage_ = 0;
  Stopwatch io_only_{hw::CumulativeSum::kForWindows};
  double watts_ = 0;
  Picoseconds watts_since_{0};
  hw::CumulativeSum joules_;
};

}  // namespace vitro::sim
