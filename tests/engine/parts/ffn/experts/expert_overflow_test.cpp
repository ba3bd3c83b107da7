#include "engine/parts/ffn/experts/expert_overflow.hpp"

#include <gtest/gtest.h>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

TEST(ExpertOverflow, rows_that_choose_independently_by_hand) {
  const OverflowCurve curve(2, 0.5);  // 0, 1, 1 or 2 rows
  EXPECT_DOUBLE_EQ(curve.expected(), 1);
  EXPECT_DOUBLE_EQ(curve.beyond(0), 1);
  EXPECT_DOUBLE_EQ(curve.beyond(1), 0.25);
  EXPECT_DOUBLE_EQ(curve.beyond(2), 0);
  EXPECT_DOUBLE_EQ(curve.beyond(99), 0);
}

TEST(ExpertOverflow, an_expert_that_all_or_none_choose) {
  EXPECT_DOUBLE_EQ(OverflowCurve(8, 1).beyond(5), 3);
  EXPECT_DOUBLE_EQ(OverflowCurve(8, 0).beyond(0), 0);
}

TEST(ExpertOverflow, chunks_that_differ_more_than_chance_count_as_they_were) {
  const std::vector<std::uint32_t> bursts{0, 0, 0, 64};
  const OverflowCurve calm(64, 0.25), burst(64, 0.25, bursts);
  EXPECT_LT(calm.beyond(32), 0.01);
  EXPECT_DOUBLE_EQ(burst.beyond(32), 8);  // a quarter of the chunks, 32 rows too many
}

TEST(ExpertOverflow, the_estimate_is_the_mean_of_many_chunks) {
  for (const std::uint32_t rows : {128u, 1024u}) {
    for (const double probability : {0.01, 0.125, 0.6}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << probability);
      const OverflowCurve curve(rows, probability);
      const auto capacity = static_cast<std::uint32_t>(rows * probability);
      Rng rng(rows);
      const int chunks = 4000;
      double beyond = 0;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        std::uint32_t count = 0;
        for (std::uint32_t row = 0; row < rows; ++row) count += rng.uniform() < probability;
        beyond += count > capacity ? count - capacity : 0;
      }
      EXPECT_NEAR(curve.beyond(capacity), beyond / chunks, 0.05 * curve.beyond(capacity));
    }
  }
}

}  // namespace
}  // namespace vitro
