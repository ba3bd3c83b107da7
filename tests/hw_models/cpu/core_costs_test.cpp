// Cycles of a core of 1 GHz: one cycle is a nanosecond.
#include <gmock/gmock.h>

#include "tests/hw_models/cpu/core.hpp"

namespace vitro::hw {
namespace {

const char* const kTables = "macs_per_cycle: {int8: {q4_0: 4}}, macs_per_cycle_batch: {int8: {q4_0: 8}}";

TEST(CoreCosts, one_activation_row_and_a_batch_have_rates_of_their_own) {
  TestCore core(kTables);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 1, 8000)), 2 * kUs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 2, 8000)), 1 * kUs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 64, 8000)), 1 * kUs);
}

TEST(CoreCosts, an_odd_row_passes_alone) {
  TestCore core(kTables);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 5, 5 * 1600)), 800 * kNs + 400 * kNs);  // four rows at 8, one at 4
}

TEST(CoreCosts, a_batch_passes_by_eight_by_four_by_two_and_alone) {
  TestCore core(std::string(kTables) + ", macs_per_cycle_batch_4: {int8: {q4_0: 16}}, macs_per_cycle_batch_8: {int8: {q4_0: 32}}");
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 64, 64 * 800)), 1600 * kNs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 15, 15 * 800)), 200 * kNs + 200 * kNs + 200 * kNs + 200 * kNs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 1, 800)), 200 * kNs);
}

TEST(CoreCosts, without_a_batch_rate_a_batch_costs_as_much_per_row) {
  TestCore core("macs_per_cycle: {int8: {q4_0: 4}}");
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 64, 8000)), 2 * kUs);
}

// Cycles per weight: 1/4 alone, 1/4 for 2 rows, then 1/8 more for each row.
const char* const kMeasured =
    "macs_per_cycle: {int8: {q4_0: 4}}, macs_per_cycle_batch: {int8: {q4_0: 8}}, macs_per_cycle_batch_4: {int8: {q4_0: 8}}, "
    "macs_per_cycle_batch_8: {int8: {q4_0: 8}}, macs_per_cycle_batch_16: {int8: {q4_0: 8}}, macs_per_cycle_batch_64: {int8: {q4_0: 8}}";

TEST(CoreCosts, measured_batches_are_joined_by_straight_lines) {
  TestCore core(kMeasured);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 1, 8000)), 2 * kUs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 2, 2 * 8000)), 2 * kUs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 3, 3 * 8000)), 3 * kUs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 64, 64 * 8000)), 64 * kUs);
  EXPECT_EQ(core.run(core.product("int8", "q4_0", 128, 128 * 8000)), 128 * kUs);
}

TEST(CoreCosts, an_operator_may_have_a_rate_of_its_own) {
  TestCore core("macs_per_cycle: {op: {rope: 4}}");
  Work rope;
  rope.elementwise = 8000;
  rope.kernel = core.model->kernel("op", "rope").id;
  EXPECT_EQ(core.run(rope), 8 * kUs);
  rope.has_own_rate = true;
  EXPECT_EQ(core.run(rope), 2 * kUs);
}

TEST(CoreCosts, rows_that_share_no_weights_are_no_batch) {
  TestCore core(kTables);
  Work attention = core.product("int8", "q4_0", 64, 8000);
  attention.columns = 0;
  EXPECT_EQ(core.run(attention), 2 * kUs);
}

TEST(CoreCosts, query_heads_that_share_keys_are_one) {
  TestCore core(kTables);
  Work attention = core.product("int8", "q4_0", 64, 8000);
  attention.columns = 0;
  attention.query_heads = 4;
  EXPECT_EQ(core.run(attention), 1 * kUs);
  attention.query_heads = 5;
  EXPECT_EQ(core.run(attention), 800 * kNs + 400 * kNs);  // four heads at 8, one at 4
}

TEST(CoreCosts, queries_of_a_tile_pass_together_over_what_they_share) {
  TestCore core(kTables);
  Work attention = core.product("int8", "q4_0", 64, 8000);
  attention.columns = 0;
  attention.query_heads = 1;
  attention.shared_macs = 4000;
  attention.tile_queries = 8;
  EXPECT_EQ(core.run(attention), 500 * kNs + 1 * kUs);  // half at 8 per cycle, half at 4
}

TEST(CoreCosts, what_the_table_lacks_has_the_general_rate_and_says_so) {
  TestCore core(std::string(kTables) + ", macs_per_cycle_otherwise: 2");
  EXPECT_TRUE(core.model->kernel("int8", "q4_0").from_table);
  EXPECT_FALSE(core.model->kernel("int8", "q6_k").from_table);
  EXPECT_EQ(core.run(core.product("int8", "q6_k", 1, 8000)), 4 * kUs);
  EXPECT_EQ(core.run(core.product("float", "q4_0", 2, 8000)), 4 * kUs);
}

TEST(CoreCosts, the_kernel_set_chooses_its_part_of_the_tables) {
  const std::string tables = ", macs_per_cycle: {neon: {int8: {q4_0: 2}}, neon-i8mm: {int8: {q4_0: 4}}, int8: {q8_0: 8}}";
  const auto time = [&](const std::string& set, std::string_view format) {
    TestCore core("kernel_set: " + set + tables);
    return core.run(core.product("int8", format, 1, 8000));
  };
  EXPECT_EQ(time("neon", "q4_0"), 4 * kUs);
  EXPECT_EQ(time("neon-i8mm", "q4_0"), 2 * kUs);
  EXPECT_EQ(time("neon", "q8_0"), 1 * kUs);  // stands in the table itself: of every set
  EXPECT_THROW(TestCore("kernel_set: sve"), ConfigError);
}

TEST(CoreCosts, conversions_cost_what_the_kernel_says_or_the_general_rate) {
  TestCore core("macs_per_cycle: {int8: {q4_0: 4}, float: {f16: 4, q4_0: 4}}, cycles_per_conversion: {int8: {q4_0: 3}, float: {f16: 0}}");
  const auto time = [&](std::string_view variant, std::string_view format, std::uint64_t macs) {
    Work work = core.product(variant, format, 1, macs);
    work.conversions = 1000;
    return core.run(work);
  };
  EXPECT_EQ(time("int8", "q4_0", 4000), 1 * kUs + 3 * kUs);
  EXPECT_EQ(time("float", "f16", 4000), 1 * kUs);             // within the product's loop
  EXPECT_EQ(time("float", "q4_0", 4000), 1 * kUs + 1 * kUs);  // one per cycle
  EXPECT_EQ(time("int8", "q4_0", 0), 1 * kUs);                // no product: a copy that changes format
}

TEST(CoreCosts, other_work_adds_up) {
  TestCore core("elementwise_per_cycle: 4, lookups_per_cycle: 8, cycles_per_row_run: 40");
  Work work;
  work.elementwise = 400;
  work.lookups = 800;
  work.row_runs = 5;
  EXPECT_EQ(core.run(work), (100 + 100 + 200) * kNs);
}

TEST(CoreCosts, a_call_without_products_asks_for_no_price) {
  TestCore core;
  Work work;
  work.elementwise = 100;
  EXPECT_EQ(core.run(work), 100 * kNs);
}

}  // namespace
}  // namespace vitro::hw
