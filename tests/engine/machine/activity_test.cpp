#include "engine/machine/activity.hpp"

#include <gtest/gtest.h>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

Picoseconds ps(std::int64_t n) { return Picoseconds(n); }

IntervalSet set_of(std::initializer_list<std::pair<int, int>> intervals) {
  IntervalSet set;
  for (const auto& [begin, end] : intervals) set.add(ps(begin), ps(end));
  return set;
}

TEST(IntervalSet, touching_and_overlapping_intervals_are_one_in_any_order) {
  const std::vector<Interval> expected = {{ps(0), ps(6)}, {ps(8), ps(9)}};
  EXPECT_EQ(set_of({{0, 2}, {2, 4}, {3, 6}, {8, 9}}).intervals(), expected);
  EXPECT_EQ(set_of({{8, 9}, {3, 6}, {0, 2}, {2, 4}}).intervals(), expected);
  EXPECT_EQ(set_of({{5, 5}, {7, 6}}).intervals().size(), 0u);
}

// Against a plain bitmap of 64 points in time.
TEST(IntervalSet, operations_agree_with_a_bitmap) {
  Rng rng(2);
  const auto draw = [&](std::uint64_t& bits) {
    IntervalSet set;
    bits = 0;
    for (int i = 0; i < 6; ++i) {
      const auto begin = static_cast<std::int64_t>(rng.below(60)), length = static_cast<std::int64_t>(rng.below(5));
      set.add(ps(begin), ps(begin + length));
      for (std::int64_t t = begin; t < begin + length; ++t) bits |= std::uint64_t{1} << t;
    }
    return set;
  };
  const auto bits_of = [](const IntervalSet& set) {
    std::uint64_t bits = 0;
    for (const Interval& interval : set.intervals()) {
      for (std::int64_t t = interval.begin.count(); t < interval.end.count(); ++t) bits |= std::uint64_t{1} << t;
    }
    return bits;
  };
  for (int trial = 0; trial < 2000; ++trial) {
    std::uint64_t a_bits = 0, b_bits = 0;
    const IntervalSet a = draw(a_bits), b = draw(b_bits);
    ASSERT_EQ(bits_of(a), a_bits);
    ASSERT_EQ(a.total().count(), __builtin_popcountll(a_bits));
    ASSERT_EQ(bits_of(a.united(b)), a_bits | b_bits);
    ASSERT_EQ(bits_of(a.intersected(b)), a_bits & b_bits);
    ASSERT_EQ(bits_of(a.without(b)), a_bits & ~b_bits);
    ASSERT_EQ(bits_of(a.clipped(ps(10), ps(30))), a_bits & ((std::uint64_t{1} << 30) - (std::uint64_t{1} << 10)));
  }
}

// units:    cpu0 [0,10) [30,40)   cpu1 [5,20)      storage outstanding [15,35) and from 50 on
TEST(Activity, io_share_is_storage_outstanding_while_every_unit_is_idle) {
  Activity activity(2);
  activity.unit_busy(0, ps(0), ps(10));
  activity.unit_busy(0, ps(30), ps(40));
  activity.unit_busy(1, ps(5), ps(20));
  activity.storage_begin(ps(15));
  activity.storage_begin(ps(18));
  activity.storage_end(ps(25));
  activity.storage_end(ps(35));
  activity.storage_begin(ps(50));
  EXPECT_DOUBLE_EQ(activity.io_share(ps(0), ps(100)), (10 + 50) / 100.0);  // [20,30) and [50,100)
  EXPECT_DOUBLE_EQ(activity.overlap_share(ps(0), ps(100)), (5 + 5) / 100.0);
  EXPECT_DOUBLE_EQ(activity.io_share(ps(22), ps(26)), 1.0);
  EXPECT_DOUBLE_EQ(activity.utilization(0, ps(0), ps(40)), 0.5);
  EXPECT_DOUBLE_EQ(activity.utilization({0, 1}, ps(0), ps(40)), (0.5 + 15 / 40.0) / 2);
}

}  // namespace
}  // namespace vitro
