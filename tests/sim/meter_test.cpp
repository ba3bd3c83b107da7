#include "sim/meter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/machine/activity.hpp"

namespace vitro::sim {
namespace {

constexpr Picoseconds kUs{1'000'000};

// A random hour of work on three processors, told to a Meter and to the intervals that the host keeps.
struct Workload {
  explicit Workload(std::uint64_t seed) {
    Rng rng(seed);
    Picoseconds now{0};
    bool running[kProcessors] = {};
    Picoseconds began[kProcessors] = {}, booked[kProcessors] = {};
    std::uint32_t requests = 0;
    for (int i = 0; i < 4000; ++i) {
      now += Picoseconds(static_cast<std::int64_t>(rng.next() % 1000));
      const std::size_t p = rng.next() % kProcessors;
      switch (rng.next() % 4) {
        case 0:
          if (running[p]) {
            meter.kernel_ends(p, now);
            activity.unit_busy(p, began[p], now);
          } else {
            meter.kernel_begins(p, now);
            began[p] = now;
          }
          running[p] = !running[p];
          break;
        case 1: {
          const Picoseconds begin = std::max(now, booked[p]) + Picoseconds(static_cast<std::int64_t>(rng.next() % 300));
          booked[p] = begin + Picoseconds(static_cast<std::int64_t>(rng.next() % 500));
          meter.system_work(p, begin, booked[p]);
          system[p].add(begin, booked[p]);
          break;
        }
        case 2:
          meter.storage_begins(now);
          activity.storage_begin(now);
          ++requests;
          break;
        default:
          if (requests == 0) break;
          --requests;
          meter.storage_ends(now);
          activity.storage_end(now);
      }
    }
    for (std::size_t p = 0; p < kProcessors; ++p) {
      if (running[p]) activity.unit_busy(p, began[p], now);
    }
    end = now;
    meter.settle(end);
  }

  static constexpr std::size_t kProcessors = 3;
  Meter meter{kProcessors};
  Activity activity{kProcessors};
  IntervalSet system[kProcessors];
  Picoseconds end{0};
};

TEST(Meter, agrees_with_the_intervals_that_the_host_keeps) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Workload w(seed);
    for (const auto& [begin, end] : {std::pair(Picoseconds(0), w.end), std::pair(w.end / 3, w.end / 2)}) {
      const double window = to_seconds(end - begin);
      EXPECT_NEAR(w.meter.io_only_seconds(begin, end) / window, w.activity.io_share(begin, end), 1e-9);
      for (std::size_t p = 0; p < Workload::kProcessors; ++p) {
        const IntervalSet busy = w.activity.busy(p).united(w.system[p]).clipped(begin, end);
        EXPECT_NEAR(w.meter.busy_seconds(p, begin, end), to_seconds(busy.total()), 1e-9 * window);
      }
    }
  }
}

TEST(Meter, joules_are_watts_over_time_whatever_overlaps) {
  Meter meter(2);
  meter.set_draw(0, {0.5, 2.5}, Picoseconds(0));
  meter.set_draw(1, {0, 1}, Picoseconds(0));
  meter.kernel_begins(0, 10 * kUs);
  meter.system_work(0, 15 * kUs, 30 * kUs);  // outlasts the kernel by 10 us
  meter.kernel_ends(0, 20 * kUs);
  meter.kernel_begins(1, 25 * kUs);
  meter.settle(40 * kUs);  // the second one still runs
  EXPECT_NEAR(meter.joules(Picoseconds(0), 40 * kUs), (40 * 0.5 + 20 * 2 + 15 * 1) * 1e-6, 1e-12);
  meter.set_draw(1, {0, 0.5}, 40 * kUs);
  meter.settle(50 * kUs);
  EXPECT_NEAR(meter.joules(40 * kUs, 50 * kUs), (10 * 0.5 + 10 * 0.5) * 1e-6, 1e-12);
}

TEST(Meter, remembers_no_more_after_a_long_run_than_after_a_short_one) {
  const auto points = [](int calls) {
    Meter meter(1);
    meter.set_draw(0, {0, 1}, Picoseconds(0));
    for (int i = 0; i < calls; ++i) {
      meter.kernel_begins(0, (3 * i) * kUs);
      meter.kernel_ends(0, (3 * i + 1) * kUs);
      meter.storage_begins((3 * i + 1) * kUs);
      meter.storage_ends((3 * i + 2) * kUs);
    }
    meter.settle(3 * calls * kUs);
    EXPECT_NEAR(meter.joules(Picoseconds(0), 3 * calls * kUs), calls * 1e-6, 1e-9 * calls);
    return meter.points();
  };
  EXPECT_GT(points(1000), 3 * 1000u);  // few calls are remembered exactly
  EXPECT_LE(points(200'000), 3 * hw::Odometer::kMaxPoints);
  EXPECT_LE(points(400'000), 3 * hw::Odometer::kMaxPoints);
}

}  // namespace
}  // namespace vitro::sim
