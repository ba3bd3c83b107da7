#include "hw_models/npu/tcm.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "engine/base/rng.hpp"

namespace vitro::hw {
namespace {

TEST(TcmAllocator, takes_the_first_gap_that_is_large_enough) {
  TcmAllocator tcm(1024, 128);
  EXPECT_EQ(tcm.allocate(256), 0u);
  EXPECT_EQ(tcm.allocate(100), 256u);
  EXPECT_EQ(tcm.allocate(1), 384u);
  tcm.free(0);
  EXPECT_EQ(tcm.allocate(300), 512u);
  EXPECT_EQ(tcm.allocate(200), 0u);
}

TEST(TcmAllocator, gaps_coalesce_with_both_neighbours) {
  TcmAllocator tcm(512, 128);
  for (Bytes i = 0; i < 4; ++i) ASSERT_EQ(tcm.allocate(128), i * 128);
  tcm.free(0);
  tcm.free(256);
  EXPECT_EQ(tcm.largest_gap(), 128u);
  EXPECT_EQ(tcm.allocate(256), std::nullopt);
  tcm.free(128);
  EXPECT_EQ(tcm.largest_gap(), 384u);
  tcm.free(384);
  EXPECT_EQ(tcm.allocate(512), 0u);
}

// Random allocations and frees against a bitmap: no overlap, alignment, refusal only when no run of free units is long enough.
TEST(TcmAllocator, holds_its_invariants_under_random_use) {
  constexpr Bytes kUnit = 128, kUnits = 64;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    TcmAllocator tcm(kUnits * kUnit, kUnit);
    std::vector<bool> taken(kUnits);
    std::map<Bytes, Bytes> blocks;
    for (int step = 0; step < 2000; ++step) {
      if (!blocks.empty() && rng.below(2) == 0) {
        auto victim = blocks.begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(rng.below(blocks.size())));
        for (Bytes i = 0; i < victim->second; ++i) taken[victim->first / kUnit + i] = false;
        tcm.free(victim->first);
        blocks.erase(victim);
      } else {
        const Bytes bytes = 1 + rng.below(12 * kUnit), units = (bytes + kUnit - 1) / kUnit;
        Bytes longest = 0, run = 0, first = kUnits;
        for (Bytes i = 0; i < kUnits; ++i) {
          run = taken[i] ? 0 : run + 1;
          longest = std::max(longest, run);
          if (run == units && first == kUnits) first = i + 1 - units;
        }
        ASSERT_EQ(tcm.largest_gap(), longest * kUnit);
        const std::optional<Bytes> offset = tcm.allocate(bytes);
        ASSERT_EQ(offset.has_value(), units <= longest);
        if (offset) {
          ASSERT_EQ(*offset, first * kUnit);
          for (Bytes i = 0; i < units; ++i) {
            ASSERT_FALSE(taken[*offset / kUnit + i]);
            taken[*offset / kUnit + i] = true;
          }
          blocks.emplace(*offset, units);
        }
      }
      Bytes used = 0;
      for (const auto& [offset, units] : blocks) used += units * kUnit;
      ASSERT_EQ(tcm.used(), used);
    }
  }
}

TEST(TcmAllocatorDeathTest, a_block_is_freed_once) {
  TcmAllocator tcm(512, 128);
  const Bytes block = *tcm.allocate(128);
  tcm.free(block);
  EXPECT_DEATH(tcm.free(block), "not allocated");
}

}  // namespace
}  // namespace vitro::hw
