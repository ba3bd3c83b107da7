#include "sim/activity_meter.hpp"

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
  meter.set_draw(0, {0.5, 2.5, 2.5}, Picoseconds(0));
  meter.set_draw(1, {0, 1, 1}, Picoseconds(0));
  meter.kernel_begins(0, 10 * kUs);
  meter.system_work(0, 15 * kUs, 30 * kUs);  // outlasts the kernel by 10 us
  meter.kernel_ends(0, 20 * kUs);
  meter.kernel_begins(1, 25 * kUs);
  meter.settle(40 * kUs);  // the second one still runs
  EXPECT_NEAR(meter.joules(Picoseconds(0), 40 * kUs), (40 * 0.5 + 20 * 2 + 15 * 1) * 1e-6, 1e-12);
  meter.set_draw(1, {0, 0.5, 0.5}, 40 * kUs);
  meter.settle(50 * kUs);
  EXPECT_NEAR(meter.joules(40 * kUs, 50 * kUs), (10 * 0.5 + 10 * 0.5) * 1e-6, 1e-12);
}

// 0.5 W idle, 1 W waiting, 3 W computing.
TEST(Meter, a_call_draws_for_what_it_computed_and_for_what_it_waited) {
  const auto joules = [](Picoseconds computed, Picoseconds until = 40 * kUs) {
    Meter meter(1);
    meter.set_draw(0, {0.5, 1, 3}, Picoseconds(0));
    meter.kernel_begins(0, 10 * kUs);
    meter.computed(0, 10 * kUs, 30 * kUs, computed);
    meter.kernel_ends(0, 30 * kUs);
    meter.settle(40 * kUs);
    return meter.joules(Picoseconds(0), until);
  };
  EXPECT_NEAR(joules(20 * kUs), (20 * 0.5 + 20 * 3) * 1e-6, 1e-12);
  EXPECT_NEAR(joules(Picoseconds(0)), (20 * 0.5 + 20 * 1) * 1e-6, 1e-12);
  EXPECT_NEAR(joules(5 * kUs), (20 * 0.5 + 5 * 3 + 15 * 1) * 1e-6, 1e-12);
  EXPECT_NEAR(joules(5 * kUs, 20 * kUs), (10 * 0.5 + 2.5 * 3 + 7.5 * 1) * 1e-6, 1e-12);  // spread evenly over the call
  EXPECT_DOUBLE_EQ(joules(Picoseconds::max()), joules(20 * kUs));
}

TEST(Meter, system_work_within_a_call_computes_whatever_the_call_does) {
  Meter meter(1);
  meter.set_draw(0, {0.5, 1, 3}, Picoseconds(0));
  meter.kernel_begins(0, Picoseconds(0));
  meter.system_work(0, 5 * kUs, 8 * kUs);
  meter.computed(0, Picoseconds(0), 20 * kUs, 4 * kUs);
  meter.kernel_ends(0, 20 * kUs);
  meter.settle(20 * kUs);
  EXPECT_NEAR(meter.joules(Picoseconds(0), 20 * kUs), ((3 + 4) * 3 + 13 * 1) * 1e-6, 1e-12);
}

// Whatever overlaps, joules are the sum over processors of idle, waiting and computing time, of each one its own, and windows add up.
TEST(Meter, joules_of_random_calls_are_the_sum_of_their_parts) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Rng rng(seed);
    constexpr std::size_t kProcessors = 3;
    const hw::PowerDraw draws[kProcessors] = {{0.5, 1, 3}, {0, 0.25, 1}, {0.125, 2, 2}};
    Meter meter(kProcessors);
    for (std::size_t p = 0; p < kProcessors; ++p) meter.set_draw(p, draws[p], Picoseconds(0));
    Picoseconds now{0}, began[kProcessors] = {};
    bool running[kProcessors] = {};
    double of[kProcessors] = {};
    for (int i = 0; i < 2000; ++i) {
      now += Picoseconds(static_cast<std::int64_t>(rng.next() % 1'000'000));
      const std::size_t p = rng.next() % kProcessors;
      if (running[p]) {
        const Picoseconds lasted = now - began[p], computed{static_cast<std::int64_t>(rng.next() % 2'000'000)};
        meter.computed(p, began[p], now, computed);
        meter.kernel_ends(p, now);
        const double computing = to_seconds(std::min(computed, lasted));
        of[p] += (draws[p].busy - draws[p].stalled) * computing + (draws[p].stalled - draws[p].idle) * to_seconds(lasted);
      } else {
        meter.kernel_begins(p, began[p] = now);
      }
      running[p] = !running[p];
    }
    meter.settle(now);
    double expected = 0;
    for (std::size_t p = 0; p < kProcessors; ++p) {
      of[p] += draws[p].idle * to_seconds(now);
      if (running[p]) of[p] += (draws[p].stalled - draws[p].idle) * to_seconds(now - began[p]);
      EXPECT_NEAR(meter.joules(p, Picoseconds(0), now) / of[p], 1, 1e-9);
      EXPECT_NEAR((meter.joules(p, Picoseconds(0), now / 3) + meter.joules(p, now / 3, now)) / of[p], 1, 1e-9);
      expected += of[p];
    }
    EXPECT_NEAR(meter.joules(Picoseconds(0), now) / expected, 1, 1e-9);
    EXPECT_NEAR((meter.joules(Picoseconds(0), now / 3) + meter.joules(now / 3, now)) / expected, 1, 1e-9);
  }
}

TEST(Meter, joules_of_each_processor_sum_to_those_of_all_while_draws_change) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Rng rng(seed);
    constexpr std::size_t kProcessors = 3;
    Meter meter(kProcessors);
    Picoseconds now{0}, booked[kProcessors] = {};
    const auto draw_something = [&](std::size_t p) {
      hw::PowerDraw draw{static_cast<double>(rng.next() % 4) / 4, 1, 2 + static_cast<double>(rng.next() % 3)};
      draw.collapses_after = Picoseconds(300'000);
      meter.set_draw(p, draw, now);
    };
    for (std::size_t p = 0; p < kProcessors; ++p) draw_something(p);
    for (int i = 0; i < 2000; ++i) {
      now += Picoseconds(static_cast<std::int64_t>(rng.next() % 1'000'000));
      const std::size_t p = rng.next() % kProcessors;
      if (meter.runs_kernel(p)) {
        meter.kernel_ends(p, now);
      } else if (rng.next() % 3 == 0) {
        draw_something(p);
      } else if (rng.next() % 2 == 0) {
        booked[p] = std::max(now, booked[p]) + Picoseconds(400'000);
        meter.system_work(p, booked[p] - Picoseconds(300'000), booked[p]);
      } else {
        meter.kernel_begins(p, now);
      }
    }
    meter.settle(now);
    for (const Picoseconds from : {Picoseconds(0), now / 3, now / 2}) {
      double sum = 0;
      for (std::size_t p = 0; p < kProcessors; ++p) sum += meter.joules(p, from, now);
      EXPECT_NEAR(sum / meter.joules(from, now), 1, 1e-9);
    }
  }
}

TEST(Meter, remembers_no_more_after_a_long_run_than_after_a_short_one) {
  const auto points = [](int calls) {
    Meter meter(1);
    meter.set_draw(0, {0, 0.5, 1}, Picoseconds(0));
    for (int i = 0; i < calls; ++i) {
      meter.kernel_begins(0, (3 * i) * kUs);
      meter.kernel_ends(0, (3 * i + 1) * kUs);
      meter.computed(0, (3 * i) * kUs, (3 * i + 1) * kUs, Picoseconds::max());
      meter.storage_begins((3 * i + 1) * kUs);
      meter.storage_ends((3 * i + 2) * kUs);
    }
    meter.settle(3 * calls * kUs);
    EXPECT_NEAR(meter.joules(Picoseconds(0), 3 * calls * kUs), calls * 1e-6, 1e-9 * calls);
    return meter.points();
  };
  EXPECT_GT(points(1000), 4 * 1000u);  // few calls are remembered exactly
  // Of waiting for storage, all joules, and of the one processor its busy time, its joules and those of computing.
  EXPECT_LE(points(200'000), 5 * hw::CumulativeSum::kMaxPoints);
  EXPECT_LE(points(400'000), 5 * hw::CumulativeSum::kMaxPoints);
}

}  // namespace
}  // namespace vitro::sim
