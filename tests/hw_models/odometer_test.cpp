#include "hw_models/odometer.hpp"

#include <gtest/gtest.h>

#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

TEST(Odometer, a_window_counts_what_passed_inside_it) {
  Odometer odometer;
  odometer.add(1 * kMs, 3 * kMs, 200);
  odometer.add(4 * kMs, 5 * kMs, 50);
  EXPECT_DOUBLE_EQ(odometer.sum(Picoseconds(0), 6 * kMs), 250);
  EXPECT_DOUBLE_EQ(odometer.sum(2 * kMs, 3 * kMs + kMs / 2), 100);
  EXPECT_DOUBLE_EQ(odometer.sum(3 * kMs, 4 * kMs), 0);
  EXPECT_DOUBLE_EQ(odometer.sum(4 * kMs + kMs / 2, 5 * kMs), 25);
}

TEST(Odometer, the_peak_is_a_mean_over_a_millisecond_or_over_a_shorter_window) {
  Odometer odometer;
  odometer.add(Picoseconds(0), kMs / 10, 10);
  EXPECT_NEAR(odometer.peak_rate(Picoseconds(0), 4 * kMs), 10e3, 1e-6);
  EXPECT_NEAR(odometer.peak_rate(Picoseconds(0), kMs / 10), 100e3, 1e-6);
  EXPECT_EQ(odometer.peak_rate(kMs, kMs), 0);
}

TEST(Odometer, stays_bounded_and_keeps_its_sums) {
  Odometer odometer;
  const std::int64_t n = 3 * static_cast<std::int64_t>(Odometer::kMaxPoints);
  for (std::int64_t i = 0; i < n; ++i) odometer.add(i * kNs, (i + 1) * kNs, 1);
  EXPECT_DOUBLE_EQ(odometer.sum(Picoseconds(0), n * kNs), static_cast<double>(n));
  EXPECT_NEAR(odometer.sum(n / 4 * kNs, n / 2 * kNs), static_cast<double>(n) / 4, 100);
}

TEST(OdometerDeath, intervals_come_in_order) {
  Odometer odometer;
  odometer.add(2 * kNs, 3 * kNs, 1);
  EXPECT_DEATH(odometer.add(kNs, 4 * kNs, 1), "in order");
}

}  // namespace
}  // namespace vitro::hw
