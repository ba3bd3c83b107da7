#include "hw_models/cpu/reuse_curve.hpp"

#include <gtest/gtest.h>

#include "tests/hw_models/cpu/core.hpp"

namespace vitro::hw {
namespace {

// 8 GB/s for what 1 MiB came between, 2 GB/s from 4 MiB on.
ReuseCurve curve(double private_mib = 0) {
  ParamTable table;
  table.name = "test.reuse_bandwidth";
  table.values = {{"1", 8.0}, {"4", 2.0}, {"private_cache", private_mib}, {"shared_cache", 3}};
  return ReuseCurve(table);
}

Work again(Bytes distance) {
  Work work;
  work.reused_bytes = work.read_bytes = 8'000'000;
  work.moved_here = work.moved_anywhere = distance;
  return work;
}

TEST(ReuseCurve, what_was_never_read_before_comes_from_dram_at_the_last_rate) {
  const auto cost = curve().cost(again(Work::kNever));
  EXPECT_FALSE(cost->cached);
  EXPECT_NEAR(cost->seconds, 4e-3, 1e-9);
}

TEST(ReuseCurve, time_per_byte_is_linear_in_the_logarithm_of_the_distance) {
  EXPECT_NEAR(curve().cost(again(100))->seconds, 1e-3, 1e-9);
  EXPECT_NEAR(curve().cost(again(MiB))->seconds, 1e-3, 1e-9);
  EXPECT_NEAR(curve().cost(again(2 * MiB))->seconds, 2.5e-3, 1e-8);
  EXPECT_NEAR(curve().cost(again(4 * MiB))->seconds, 4e-3, 1e-9);
}

TEST(ReuseCurve, the_shared_cache_ends_where_it_ends) {
  EXPECT_TRUE(curve().cost(again(3 * MiB))->cached);
  EXPECT_FALSE(curve().cost(again(3 * MiB + 1))->cached);
}

TEST(ReuseCurve, what_others_move_does_not_reach_a_private_cache) {
  Work work = again(64 * MiB);
  work.moved_here = MiB;
  EXPECT_TRUE(curve(1).cost(work)->cached);
  EXPECT_FALSE(curve(0.5).cost(work)->cached);
}

TEST(ReuseCurve, says_nothing_without_a_table_or_of_calls_that_reuse_nothing) {
  EXPECT_FALSE(ReuseCurve(ParamTable{}).cost(again(1)));
  Work work = again(1);
  work.reused_bytes = 0;
  EXPECT_FALSE(curve().cost(work));
}

TEST(ReuseCurve, distances_and_rates_that_are_none_are_refused) {
  ParamTable table;
  table.values = {{"much", 8.0}};
  EXPECT_THROW(ReuseCurve{table}, ConfigError);
  table.values = {{"1", 0.0}};
  EXPECT_THROW(ReuseCurve{table}, ConfigError);
}

TEST(ReuseCurve, a_core_reads_cached_weights_without_the_bus) {
  TestCore core("reuse_bandwidth: {kind: measured, source: test, shared_cache: 3, '1': 8, '4': 2}", "1 GB/s");
  EXPECT_EQ(core.run(again(MiB)), Picoseconds(1'000'000'000));
  EXPECT_EQ(core.run(again(Work::kNever)), Picoseconds(8'000'000'000));  // its share of the bus is below the curve's 2 GB/s
}

}  // namespace
}  // namespace vitro::hw
