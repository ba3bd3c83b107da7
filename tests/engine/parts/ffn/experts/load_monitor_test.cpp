#include "engine/parts/ffn/experts/load_monitor.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

TEST(LoadMonitor, overlap_counts_the_hottest_that_both_lists_name) {
  const std::vector<double> one{4, 3, 2, 1}, other{1, 3, 4, 2};
  EXPECT_DOUBLE_EQ(overlap_at(1, one, other), 0);    // 0; 2
  EXPECT_DOUBLE_EQ(overlap_at(2, one, other), 0.5);  // 0, 1; 2, 1
  EXPECT_DOUBLE_EQ(overlap_at(4, one, other), 1);
  EXPECT_DOUBLE_EQ(overlap_at(1, {1, 1}, {1, 1}), 1) << "of equals the lower id";
}

TEST(LoadMonitor, the_overlap_is_the_median_layers) {
  LoadMonitor monitor({{0.7, 0.3}, {0.7, 0.3}, {0.7, 0.3}}, 4);
  EXPECT_FALSE(monitor.overlap(1));
  monitor.observe(0, {3, 1}, 4);
  EXPECT_DOUBLE_EQ(*monitor.overlap(1), 1);
  monitor.observe(1, {1, 3}, 4);
  EXPECT_DOUBLE_EQ(*monitor.overlap(1), 0.5);
  monitor.observe(2, {0, 4}, 4);
  EXPECT_DOUBLE_EQ(*monitor.overlap(1), 0);
  monitor.forget();
  EXPECT_FALSE(monitor.overlap(1));
}

TEST(LoadMonitor, expectations_go_half_of_the_way) {
  LoadMonitor monitor({{0.8, 0.2}, {0.5, 0.5}}, 4);
  monitor.observe(0, {1, 3}, 4);
  EXPECT_EQ(monitor.loads(), (ExpertLoads{{0.525, 0.475}, {0.5, 0.5}}));
  monitor.follow();
  EXPECT_EQ(monitor.expected()[0], (std::vector<double>{0.525, 0.475}));
  EXPECT_FALSE(monitor.overlap(1));
  EXPECT_EQ(monitor.loads(), monitor.expected());
}

TEST(LoadMonitor, chunks_are_full_steps_of_all_layers_and_the_last_ones) {
  LoadMonitor monitor({{0.5, 0.5}, {0.5, 0.5}}, 4);
  monitor.observe(0, {3, 1}, 4);
  EXPECT_TRUE(monitor.chunks().empty());
  monitor.observe(1, {2, 2}, 4);
  monitor.observe(0, {1, 0}, 1);
  EXPECT_EQ(monitor.chunks(), (ChunkCounts{{{3, 1}}, {{2, 2}}}));
  for (std::uint32_t i = 0; i < LoadMonitor::kMostChunks; ++i) {
    for (const std::size_t layer : {0, 1}) monitor.observe(layer, {4, 0}, 4);
  }
  EXPECT_EQ(monitor.chunks()[0].size(), LoadMonitor::kMostChunks);
  EXPECT_EQ(monitor.chunks()[0].front(), (std::vector<std::uint32_t>{4, 0}));
}

TEST(LoadMonitor, expectations_stay_shares_and_come_to_what_is_observed) {
  Rng rng(3);
  LoadMonitor monitor({shares(rng, 16)}, 64);
  for (int request = 0; request < 12; ++request) {
    std::vector<std::uint32_t> chose(16, 0);
    for (const ExpertChoice& choice : choices(rng, 64, 16, 2)) {
      for (const std::uint16_t expert : choice.ids) ++chose[expert];
    }
    monitor.observe(0, chose, 64);
    monitor.follow();
    EXPECT_NEAR(std::accumulate(monitor.expected()[0].begin(), monitor.expected()[0].end(), 0.0), 1, 1e-9);
  }
  EXPECT_GT(monitor.expected()[0][0], 0.08);  // low ids are chosen more often
  EXPECT_LT(monitor.expected()[0][15], 0.03);
}

}  // namespace
}  // namespace vitro
