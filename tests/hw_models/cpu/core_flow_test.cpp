#include <gtest/gtest.h>

#include "tests/hw_models/cpu/core.hpp"

namespace vitro::hw {
namespace {

Work bytes(Bytes read, Bytes written = 0, Bytes recent_read = 0, Bytes recent_written = 0) {
  Work work;
  work.read_bytes = read;
  work.written_bytes = written;
  work.recent_read_bytes = recent_read;
  work.recent_written_bytes = recent_written;
  return work;
}

TEST(FlowCore, no_call_is_faster_than_the_bandwidth_of_its_core) {
  EXPECT_EQ(TestCore("").run(bytes(100'000)), 10 * kUs);
  EXPECT_EQ(TestCore("", "5 GB/s").run(bytes(100'000)), 20 * kUs);
  EXPECT_EQ(TestCore("", "40 GB/s").run(bytes(100'000)), 5 * kUs);  // the DRAM's 20 GB/s
}

TEST(FlowCore, a_call_that_moves_nothing_takes_its_overhead_and_its_arithmetic) {
  TestCore core("call_overhead: 300 ns");
  Work work;
  work.elementwise = 700;
  EXPECT_EQ(core.run(work), kUs);
}

TEST(FlowCore, it_computes_for_its_cycles_and_waits_else) {
  TestCore core("call_overhead: 300 ns");
  Work work = bytes(100'000);
  work.elementwise = 700;
  EXPECT_EQ(core.run(work), 10 * kUs + 300 * kNs);
  EXPECT_EQ(core.model->computed(), kUs);
  work.read_bytes = 0;
  const Picoseconds bound_by_arithmetic = core.run(work);
  EXPECT_EQ(core.model->computed(), bound_by_arithmetic);  // it never waits
}

TEST(FlowCore, system_work_in_the_middle_of_a_call_is_no_part_of_it) {
  TestCore core;
  Work work;
  work.elementwise = 10'000;
  core.model->submit(work, [] {});
  core.context.run_until(core.context.now() + 5 * kUs);
  core.model->preempt(5 * kUs);
  core.context.run();
  EXPECT_EQ(core.model->computed(), 10 * kUs);
}

// What a cache miss adds to a loop is waiting, too.
TEST(FlowCore, what_the_reuse_curve_adds_is_waiting) {
  TestCore core("miss_time: {1: 0, 64: 6.4}", "1000 GB/s");
  Work work = bytes(64'000);
  work.elementwise = 1000;
  work.reused_bytes = 64'000;
  EXPECT_EQ(core.run(work), kUs + 6400 * kNs);
  EXPECT_EQ(core.model->computed(), kUs);
}

TEST(FlowCore, activations_that_fit_the_cache_do_not_cross_the_bus) {
  TestCore core("cache: 64 KiB");
  EXPECT_EQ(core.run(bytes(100'000 + 30'000, 20'000, 30'000, 20'000)), 10 * kUs);  // what is left are 100 KB of weights
  EXPECT_EQ(core.dram->totals().bytes_read + core.dram->totals().bytes_written, 100'000);
}

TEST(FlowCore, without_a_cache_every_byte_comes_from_memory) {
  TestCore core;
  EXPECT_EQ(core.run(bytes(100'000 + 30'000, 20'000, 30'000, 20'000)), 15 * kUs);
  EXPECT_EQ(core.dram->totals().bytes_read + core.dram->totals().bytes_written, 150'000);
}

TEST(FlowCore, activations_that_exceed_the_cache_drive_each_other_out) {
  TestCore core("cache: 64 KiB");
  EXPECT_EQ(core.run(bytes(50'000, 15'536, 50'000, 15'536)), Picoseconds(0));  // 64 KiB to the byte
  EXPECT_EQ(core.run(bytes(50'001, 15'536, 50'001, 15'536)).count(), 6'553'700);
}

TEST(FlowCore, weights_are_not_cached_however_small) {
  TestCore core("cache: 64 KiB");
  EXPECT_EQ(core.run(bytes(1000)), 100 * kNs);
  EXPECT_EQ(core.run(bytes(1000)), 100 * kNs);
}

TEST(FlowCore, system_work_delays_the_call_in_progress_and_no_later_one) {
  TestCore core;
  core.model->preempt(5 * kUs);  // idle: nobody waits
  EXPECT_EQ(core.run(bytes(100'000)), 10 * kUs);
  Picoseconds end{0};
  const Picoseconds begin = core.context.now();
  core.model->submit(bytes(100'000), [&] { end = core.context.now(); });
  core.model->preempt(3 * kUs);
  core.context.run();
  EXPECT_EQ(end - begin, 13 * kUs);
  EXPECT_EQ(core.run(bytes(100'000)), 10 * kUs);
}

TEST(FlowCore, says_what_it_costs_to_hand_work_over) {
  const DispatchCosts given = TestCore("wake_up: 7 us, spin: 20 us, hand_back: 2 us").model->dispatch();
  EXPECT_EQ(given.wake_up, 7 * kUs);
  EXPECT_EQ(given.spin, 20 * kUs);
  EXPECT_EQ(given.hand_back, 2 * kUs);
}

}  // namespace
}  // namespace vitro::hw
