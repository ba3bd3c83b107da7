#include "hw_models/cpu/reuse_curve.hpp"

#include <gtest/gtest.h>

#include "tests/hw_models/cpu/core.hpp"

namespace vitro::hw {
namespace {

// A line costs nothing more than 1 MiB later, 2 ns from 4 MiB on; one kernel pays three times that.
const ParamTable& table(double private_mib = 0) {
  static ParamTable table;
  table.name = "test.miss_time";
  table.values = {{"1", 0.0}, {"4", 2.0}, {"private_cache", private_mib}, {"float.q8_0", 3}};
  return table;
}

Work again(Bytes distance) {
  Work work;
  work.reused_bytes = work.read_bytes = 64'000'000;
  work.moved_here = work.moved_anywhere = distance;
  return work;
}

TEST(ReuseCurve, what_was_never_read_before_comes_from_dram_at_the_last_time) {
  const auto cost = ReuseCurve(table()).cost(again(Work::kNever));
  EXPECT_EQ(cost->dram_share, 1);
  EXPECT_NEAR(cost->seconds, 2e-3, 1e-9);
}

TEST(ReuseCurve, time_and_share_of_dram_are_linear_in_the_logarithm_of_the_distance) {
  const ReuseCurve curve(table());
  EXPECT_EQ(curve.cost(again(100))->seconds, 0);
  EXPECT_EQ(curve.cost(again(MiB))->dram_share, 0);
  EXPECT_NEAR(curve.cost(again(2 * MiB))->seconds, 1e-3, 1e-8);
  EXPECT_NEAR(curve.cost(again(2 * MiB))->dram_share, 0.5, 1e-6);
  EXPECT_NEAR(curve.cost(again(4 * MiB))->seconds, 2e-3, 1e-9);
}

TEST(ReuseCurve, what_others_move_does_not_reach_a_private_cache) {
  Work work = again(64 * MiB);
  work.moved_here = MiB;
  EXPECT_EQ(ReuseCurve(table(1)).cost(work)->seconds, 0);
  EXPECT_NEAR(ReuseCurve(table(0.5)).cost(work)->seconds, 2e-3, 1e-9);
}

TEST(ReuseCurve, a_kernel_may_be_slowed_down_more_than_others) {
  ReuseCurve curve(table());
  curve.name(0, "float", "f16");
  curve.name(1, "float", "q8_0");
  Work work = again(Work::kNever);
  EXPECT_NEAR(curve.cost(work)->seconds, 2e-3, 1e-9);
  work.kernel = 1;
  EXPECT_NEAR(curve.cost(work)->seconds, 6e-3, 1e-9);
}

TEST(ReuseCurve, says_nothing_without_a_table_or_of_calls_that_reuse_nothing) {
  const ParamTable none;
  EXPECT_FALSE(ReuseCurve(none).cost(again(1)));
  Work work = again(1);
  work.reused_bytes = 0;
  EXPECT_FALSE(ReuseCurve(table()).cost(work));
}

TEST(ReuseCurve, tables_without_a_distance_or_a_time_are_refused) {
  ParamTable table;
  table.values = {{"float.f16", 8.0}};
  EXPECT_THROW(ReuseCurve{table}, ConfigError);
  table.values = {{"1", 0.0}};
  EXPECT_THROW(ReuseCurve{table}, ConfigError);
}

// 1 ms of arithmetic, 1 ms for a million lines that are half in DRAM, and what the bus makes of a half or of all of them.
TEST(ReuseCurve, a_miss_adds_to_the_arithmetic_and_only_what_comes_from_dram_crosses_the_bus) {
  TestCore core("miss_time: {kind: measured, source: test, '1': 0, '4': 2}", "16 GB/s");
  Work work = again(2 * MiB);
  work.elementwise = 1'000'000;
  EXPECT_NEAR(to_seconds(core.run(work)), 2e-3, 1e-8);
  EXPECT_NEAR(to_seconds(core.run(again(Work::kNever))), 4e-3, 1e-8);  // 64 MB at 16 GB/s
}

}  // namespace
}  // namespace vitro::hw
