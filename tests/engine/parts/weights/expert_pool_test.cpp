#include "engine/parts/weights/expert_pool.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

const auto kNone = [](std::uint32_t) { return false; };

ExpertPool pool_of(std::string_view rule, std::uint32_t blocks, std::uint32_t slots, std::uint32_t layers = 1) {
  return {blocks, slots, make_eviction(rule, {blocks, slots, 2, layers})};
}

TEST(ExpertPool, the_least_recently_used_goes_and_its_slot_is_taken) {
  ExpertPool pool = pool_of("lru", 4, 2);
  EXPECT_EQ(pool.admit(0, kNone, kNone)->slot, 0u);
  EXPECT_EQ(pool.admit(1, kNone, kNone)->slot, 1u);
  pool.touch(0);
  const auto place = pool.admit(2, kNone, kNone);
  EXPECT_EQ(place->evicted, 1u);
  EXPECT_EQ(place->slot, 1u);
  EXPECT_TRUE(pool.resident(0) && pool.resident(2) && !pool.resident(1));
}

TEST(ExpertPool, what_is_held_stays_and_what_should_stay_goes_only_where_nothing_else_can) {
  ExpertPool pool = pool_of("lru", 5, 2);
  pool.admit(0, kNone, kNone);
  pool.admit(1, kNone, kNone);
  const auto is = [](std::uint32_t block) { return [block](std::uint32_t b) { return b == block; }; };
  EXPECT_EQ(pool.admit(2, is(0), kNone)->evicted, 1u);
  EXPECT_EQ(pool.admit(3, is(0), is(2))->evicted, 2u);
  EXPECT_FALSE(pool.admit(4, [](std::uint32_t) { return true; }, kNone));
}

TEST(ExpertPool, what_is_kept_never_goes) {
  ExpertPool pool = pool_of("lru", 4, 2);
  pool.admit(0, kNone, kNone);
  pool.keep(0);
  pool.admit(1, kNone, kNone);
  EXPECT_EQ(pool.admit(2, kNone, kNone)->evicted, 1u);
  EXPECT_EQ(pool.admit(3, kNone, kNone)->evicted, 2u);
  EXPECT_EQ(pool.kept(), 1u);
  EXPECT_TRUE(pool.keeps(0) && pool.resident(0));
}

// "none" gives nothing up: what came first stays but for the place that newcomers pass through.
TEST(ExpertPool, what_the_rule_would_not_admit_passes_through_few_slots) {
  ExpertPool pool = pool_of("none", 20, 6);
  for (std::uint32_t block = 0; block < 20; ++block) pool.admit(block, kNone, kNone);
  std::uint32_t first = 0;
  for (std::uint32_t block = 0; block < 6; ++block) first += pool.resident(block) ? 1 : 0;
  EXPECT_EQ(first, 4u);
  EXPECT_TRUE(pool.resident(18) && pool.resident(19));
  EXPECT_FALSE(pool.admit_if_worth(17, kNone)) << "nothing goes for what may be wanted";
}

// A calibration stands for a long text: one use outweighs what it says of experts that are used less, and not what it says of others.
TEST(ExpertPool, what_a_calibration_expects_counts_before_the_first_use) {
  const auto evicted_for_two = [](double first, double second) {
    ExpertPool pool = pool_of("popularity", 4, 2);
    pool.expect(0, first);
    pool.expect(1, second);
    pool.expect(2, 0.5);
    for (const std::uint32_t block : {0u, 1u}) EXPECT_TRUE(pool.admit(block, kNone, kNone));
    return pool.admit(2, kNone, kNone)->evicted;
  };
  EXPECT_EQ(evicted_for_two(0.9, 0.1), 1u);
  EXPECT_EQ(evicted_for_two(0.1, 0.9), 0u);
  EXPECT_EQ(evicted_for_two(0, 0.001), 0u) << "one use each, and a little more";
}

TEST(ExpertPool, by_popularity_and_by_router_what_was_used_often_outlives_what_was_used_last) {
  for (const char* rule : {"popularity", "router"}) {
    ExpertPool pool = pool_of(rule, 4, 2);
    pool.weigh(0, 0.9f);
    pool.admit(0, kNone, kNone);
    pool.touch(0);
    pool.weigh(1, 0.1f);
    pool.admit(1, kNone, kNone);
    pool.weigh(2, 0.3f);
    EXPECT_EQ(pool.admit(2, kNone, kNone)->evicted, 1u) << rule;
  }
}

TEST(ExpertPool, an_old_use_counts_for_less) {
  ExpertPool pool = pool_of("popularity", 4, 2);
  pool.admit(0, kNone, kNone);
  pool.touch(0);
  for (int token = 0; token < 200; ++token) pool.next_token();
  pool.admit(1, kNone, kNone);
  EXPECT_EQ(pool.admit(2, kNone, kNone)->evicted, 0u) << "two uses of three half-lives ago are worth a quarter of one";
}

TEST(ExpertPool, a_rule_that_gives_up_what_there_is_room_for_is_refused) {
  ExpertPool pool = pool_of("window", 4, 2);
  pool.admit(0, kNone, kNone);
  for (int token = 0; token < 2; ++token) pool.next_token();
  EXPECT_THROW(pool.next_token(), RunError) << "the window of two tokens is over";
}

// Whatever the rule and the accesses: no slot holds two blocks, and no block is in two slots.
TEST(ExpertPool, slots_and_blocks_agree_for_any_accesses) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    std::vector<std::string> rules = evictions().names();
    std::erase(rules, "window");  // it gives up what there is room for
    const auto slots = static_cast<std::uint32_t>(1 + rng.below(8));
    ExpertPool pool = pool_of(rules[rng.below(rules.size())], 16, slots, 4);
    for (int i = 0; i < 300; ++i) {
      const auto block = static_cast<std::uint32_t>(rng.below(16));
      if (rng.below(5) == 0) pool.next_layer();
      if (rng.below(9) == 0) pool.next_token();
      pool.weigh(block, 0.5f);
      if (pool.resident(block)) {
        pool.touch(block);
      } else if (rng.below(3) == 0) {
        pool.admit_if_worth(block, kNone);
      } else {
        ASSERT_TRUE(pool.admit(block, kNone, kNone)) << seed;
        ASSERT_TRUE(pool.resident(block));
      }
      std::set<std::uint32_t> taken;
      std::uint32_t resident = 0;
      for (std::uint32_t b = 0; b < 16; ++b) {
        if (!pool.resident(b)) continue;
        ++resident;
        ASSERT_LT(pool.slot_of(b), slots);
        taken.insert(pool.slot_of(b));
      }
      ASSERT_EQ(taken.size(), resident) << seed;
    }
  }
}

}  // namespace
}  // namespace vitro
