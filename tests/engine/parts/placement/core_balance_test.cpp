#include "engine/parts/placement/core_balance.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

// What cores of these rates take for their shares of some work.
std::vector<double> times(const Shares& shares, const std::vector<double>& rates) {
  std::vector<double> seconds(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) seconds[i] = shares[i] / rates[i];
  return seconds;
}

TEST(CoreBalance, is_even_until_it_has_learned) {
  const CoreBalance balance(3, 1);
  for (const BlockKind kind : {BlockKind::embed, BlockKind::attention, BlockKind::ffn, BlockKind::head}) {
    EXPECT_EQ(balance.shares(kind, 1), (Shares{1, 1, 1}));
    EXPECT_EQ(balance.shares(kind, 99), (Shares{1, 1, 1}));
  }
}

TEST(CoreBalance, after_learning_all_cores_end_together) {
  Rng rng(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> rates(2 + rng.below(7));
    for (double& rate : rates) rate = 0.1 + rng.uniform();
    CoreBalance balance(rates.size(), 1);
    balance.learn(BlockKind::ffn, 1, times(balance.shares(BlockKind::ffn, 1), rates), 1);
    const Shares& shares = balance.shares(BlockKind::ffn, 1);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), static_cast<double>(rates.size()), 1e-9);
    const std::vector<double> seconds = times(shares, rates);
    for (const double s : seconds) EXPECT_NEAR(s, seconds.front(), 1e-9);
  }
}

TEST(CoreBalance, blocks_and_prompts_learn_apart) {
  CoreBalance balance(2, 4);
  balance.learn(BlockKind::ffn, 4, {1, 2}, 1);
  balance.learn(BlockKind::head, 5, {3, 1}, 1);
  EXPECT_EQ(balance.shares(BlockKind::ffn, 1), (Shares{4.0 / 3, 2.0 / 3}));
  EXPECT_EQ(balance.shares(BlockKind::ffn, 5), (Shares{1, 1}));
  EXPECT_EQ(balance.shares(BlockKind::head, 512), (Shares{0.5, 1.5}));
  EXPECT_EQ(balance.shares(BlockKind::head, 4), (Shares{1, 1}));
}

TEST(CoreBalance, a_core_that_had_no_work_keeps_its_share) {
  CoreBalance balance(2, 1);
  balance.learn(BlockKind::ffn, 1, {1, 0}, 1);
  EXPECT_EQ(balance.shares(BlockKind::ffn, 1), (Shares{1, 1}));
}

TEST(CoreBalance, cores_that_hardly_differ_are_alike) {
  CoreBalance balance(2, 1);
  balance.learn(BlockKind::ffn, 1, {1.00, 1.05}, 2);
  balance.learn(BlockKind::ffn, 1, {1.0, 1.0}, 1);
  balance.learn(BlockKind::head, 1, {1.0, 1.5}, 2);
  balance.learn(BlockKind::head, 1, {1.0, 1.0}, 1);
  balance.settle();
  EXPECT_EQ(balance.shares(BlockKind::ffn, 1), (Shares{1, 1}));
  EXPECT_DOUBLE_EQ(balance.shares(BlockKind::head, 1)[0], 1.2);
  EXPECT_DOUBLE_EQ(balance.shares(BlockKind::head, 1)[1], 0.8);
}

// As beside a process that takes a core away for longer than a phase lasts.
TEST(CoreBalance, shares_that_made_phases_slower_are_not_kept) {
  CoreBalance balance(2, 1);
  balance.learn(BlockKind::ffn, 1, {1, 2}, 1.0);
  balance.learn(BlockKind::ffn, 1, {1, 1}, 1.3);
  balance.settle();
  EXPECT_EQ(balance.shares(BlockKind::ffn, 1), (Shares{1, 1}));
}

TEST(CoreBalance, of_rounds_that_are_as_fast_the_last_one_counts) {
  CoreBalance balance(2, 1);
  balance.learn(BlockKind::ffn, 1, {1, 2}, 1.00);
  balance.learn(BlockKind::ffn, 1, {1, 1}, 0.70);
  balance.learn(BlockKind::ffn, 1, {1, 3}, 0.71);
  balance.learn(BlockKind::ffn, 1, {1, 1}, 0.80);
  balance.settle();
  EXPECT_EQ(balance.shares(BlockKind::ffn, 1), (Shares{4.0 / 3, 2.0 / 3}));
}

TEST(CoreBalance, the_slowest_core_is_left_out_only_where_that_is_faster_than_all_else) {
  for (const double without : {0.99, 0.9}) {
    CoreBalance balance(3, 1);
    balance.learn(BlockKind::ffn, 1, {1, 1, 4}, 1.2);
    balance.learn(BlockKind::ffn, 1, {1, 1, 1}, 1.0);
    ASSERT_TRUE(balance.leave_out_slowest(BlockKind::ffn, 1));
    EXPECT_EQ(balance.shares(BlockKind::ffn, 1), (Shares{1.5, 1.5, 0}));
    balance.learn(BlockKind::ffn, 1, {1, 1, 0}, without);
    balance.settle();
    EXPECT_EQ(balance.shares(BlockKind::ffn, 1)[2] == 0, without < 0.95);
  }
}

TEST(CoreBalance, of_cores_that_are_alike_none_is_left_out) {
  CoreBalance balance(2, 1);
  balance.learn(BlockKind::ffn, 1, {1, 1.05}, 1);
  const Shares before = balance.shares(BlockKind::ffn, 1);
  EXPECT_FALSE(balance.leave_out_slowest(BlockKind::ffn, 1));
  EXPECT_EQ(balance.shares(BlockKind::ffn, 1), before);
}

}  // namespace
}  // namespace vitro
