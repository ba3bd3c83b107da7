#include "traces/kept_draws.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace vitro {
namespace {

using By = KeptDraws::By;

NeuronKey key(std::int16_t layer, std::uint32_t position, bool guess = false) { return {layer, -1, 100, {0, position}, guess}; }

IndexBits bits(std::uint64_t word) { return std::make_shared<const Bits>(Bits{word}); }

TEST(KeptDraws, an_answer_is_found_by_its_whole_key) {
  KeptDraws kept;
  kept.keep(key(1, 5), bits(3), By::asked);
  ASSERT_NE(kept.find(key(1, 5), By::asked), nullptr);
  EXPECT_EQ(*kept.find(key(1, 5), By::asked), Bits{3});
  EXPECT_EQ(kept.find(key(1, 6), By::asked), nullptr);
  EXPECT_EQ(kept.find(key(2, 5), By::asked), nullptr);
  EXPECT_EQ(kept.find(key(1, 5, true), By::asked), nullptr);
}

TEST(KeptDraws, the_latest_are_kept) {
  KeptDraws kept;
  constexpr std::uint32_t kMany = 4 * KeptDraws::kMost;
  for (std::uint32_t p = 0; p < kMany; ++p) kept.keep(key(0, p), bits(p), By::asked);
  std::uint32_t late = 0, early = 0;
  for (std::uint32_t p = 0; p < kMany; ++p) {
    const IndexBits found = kept.find(key(0, p), By::asked);
    if (found == nullptr) continue;
    EXPECT_EQ(*found, Bits{p});
    (p < kMany / 2 ? early : late) += 1;
  }
  EXPECT_GT(late, KeptDraws::kMost / 2);
  EXPECT_LT(early, late / 4);
}

TEST(KeptDraws, what_was_drawn_ahead_is_counted_and_found_once) {
  KeptDraws kept;
  kept.keep(key(0, 0), bits(1), By::ahead);
  kept.keep(key(0, 1), bits(1), By::ahead);
  kept.keep(key(0, 2), bits(1), By::asked);
  kept.find(key(0, 0), By::ahead);  // not a question of the run
  EXPECT_EQ(kept.ahead().found, 0u);
  kept.find(key(0, 0), By::asked);
  kept.find(key(0, 0), By::asked);
  kept.find(key(0, 2), By::asked);
  EXPECT_EQ(kept.ahead().kept, 2u);
  EXPECT_EQ(kept.ahead().found, 1u);
}

}  // namespace
}  // namespace vitro
