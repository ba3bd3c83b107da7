#include "hw_models/cumulative_sum.hpp"

#include <gtest/gtest.h>

#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

TEST(CumulativeSum, a_window_counts_what_passed_inside_it) {
  CumulativeSum total;
  total.add(1 * kMs, 3 * kMs, 200);
  total.add(4 * kMs, 5 * kMs, 50);
  EXPECT_DOUBLE_EQ(total.sum(Picoseconds(0), 6 * kMs), 250);
  EXPECT_DOUBLE_EQ(total.sum(2 * kMs, 3 * kMs + kMs / 2), 100);
  EXPECT_DOUBLE_EQ(total.sum(3 * kMs, 4 * kMs), 0);
  EXPECT_DOUBLE_EQ(total.sum(4 * kMs + kMs / 2, 5 * kMs), 25);
}

TEST(CumulativeSum, the_peak_is_a_mean_over_a_millisecond_or_over_a_shorter_window) {
  CumulativeSum total;
  total.add(Picoseconds(0), kMs / 10, 10);
  EXPECT_NEAR(total.peak_rate(Picoseconds(0), 4 * kMs), 10e3, 1e-6);
  EXPECT_NEAR(total.peak_rate(Picoseconds(0), kMs / 10), 100e3, 1e-6);
  EXPECT_EQ(total.peak_rate(kMs, kMs), 0);
}

TEST(CumulativeSum, stays_bounded_and_keeps_its_sums) {
  for (const std::size_t most : {CumulativeSum::kMaxPoints, CumulativeSum::kForWindows}) {
    CumulativeSum total(most);
    const auto n = static_cast<std::int64_t>(3 * most);
    for (std::int64_t i = 0; i < n; ++i) total.add(i * kNs, (i + 1) * kNs, 1);
    EXPECT_LE(total.points(), most);
    EXPECT_DOUBLE_EQ(total.sum(Picoseconds(0), n * kNs), static_cast<double>(n));
    EXPECT_NEAR(total.sum(n / 4 * kNs, n / 2 * kNs), static_cast<double>(n) / 4, 100);
  }
}

// Amounts come in bursts: a window that cuts one is off by no more than what passes between two points.
TEST(CumulativeSum, a_window_is_exact_to_the_distance_of_points) {
  for (const std::size_t most : {CumulativeSum::kMaxPoints, CumulativeSum::kForWindows}) {
    CumulativeSum total(most);
    const auto n = static_cast<std::int64_t>(5 * most);
    for (std::int64_t i = 0; i < n; ++i) total.add(4 * i * kNs, (4 * i + 1) * kNs, 1);
    const double points_apart = 4.0 * 4 * static_cast<double>(n) / static_cast<double>(most);  // ns
    for (const std::int64_t i : {n / 7, n / 3, n - 9}) {
      EXPECT_NEAR(total.sum(Picoseconds(0), (4 * i + 1) * kNs), static_cast<double>(i + 1), points_apart / 4 + 1) << most;
    }
  }
}

TEST(CumulativeSumDeath, intervals_come_in_order) {
  CumulativeSum total;
  total.add(2 * kNs, 3 * kNs, 1);
  EXPECT_DEATH(total.add(kNs, 4 * kNs, 1), "in order");
}

}  // namespace
}  // namespace vitro::hw
