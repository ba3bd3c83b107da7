// Which images and buffers hold a matrix, and how many work items compute it.
#include "engine/kernels/opencl/launch_plan.hpp"

#include <gtest/gtest.h>

namespace vitro::test {
namespace {

using namespace opencl;

constexpr Limits kPhone{16384, 16384, 1 * GiB, 1024, 12};

TEST(LaunchPlan, one_image_holds_what_fits) {
  const WeightPlan plan = plan_image(3584, 112, kPhone).value();
  ASSERT_EQ(plan.pieces.size(), 1u);
  EXPECT_EQ(plan.pieces[0].count, 3584u);
  EXPECT_EQ(plan.height, 112u);
  EXPECT_EQ(plan.width(plan.pieces[0], 112), 3584u);
}

TEST(LaunchPlan, weights_wider_than_the_largest_image_are_split_by_rows) {
  const WeightPlan plan = plan_image(18944, 112, kPhone).value();  // Qwen2-7B's Gate
  ASSERT_EQ(plan.pieces.size(), 2u);
  EXPECT_EQ(plan.pieces[0].count, 16384u);
  EXPECT_EQ(plan.pieces[1].first, 16384u);
  EXPECT_EQ(plan.pieces[1].count, 2560u);
}

TEST(LaunchPlan, lines_beyond_the_height_stand_beside_the_others_and_no_texel_twice) {
  const Limits small{100, 7, GiB, 64, 1};
  const std::uint32_t rows = 90, lines = 20;  // three columns of lines, 33 rows each at most
  const WeightPlan plan = plan_image(rows, lines, small).value();
  EXPECT_EQ(plan.height, 7u);
  std::uint32_t covered = 0;
  for (const Piece& piece : plan.pieces) {
    EXPECT_EQ(piece.first, covered);
    covered += piece.count;
    EXPECT_LE(plan.width(piece, lines), 100u);
    std::vector<int> used(std::size_t{plan.width(piece, lines)} * plan.height);
    for (std::uint32_t i = 0; i < lines; ++i) {
      for (std::uint32_t r = 0; r < piece.count; ++r) {
        const std::uint32_t x = r + i / plan.height * piece.count, y = i % plan.height;
        ASSERT_LT(x, plan.width(piece, lines));
        EXPECT_EQ(used[std::size_t{y} * plan.width(piece, lines) + x]++, 0);
      }
    }
  }
  EXPECT_EQ(covered, rows);
  EXPECT_EQ(plan.pieces.size(), 3u);
}

TEST(LaunchPlan, objects_stay_below_the_devices_largest) {
  const Limits little{16384, 16384, 64 * KiB, 64, 1};
  for (const WeightPlan& plan : {plan_image(1000, 32, little).value(), plan_buffer(1000, 32, little).value()}) {
    EXPECT_GT(plan.pieces.size(), 1u);
    for (const Piece& piece : plan.pieces) EXPECT_LE(Bytes{piece.count} * 32 * kTexelBytes, 64 * KiB);
  }
}

TEST(LaunchPlan, what_a_device_can_not_hold_is_refused_with_the_reason) {
  EXPECT_EQ(plan_image(1, 1, {0, 0, GiB, 1, 1}).status().message, "it has no images");
  EXPECT_EQ(plan_image(8, 100, {4, 10, GiB, 1, 1}).status().code, Code::unsupported_shape);
  EXPECT_EQ(plan_buffer(8, 100, {0, 0, 1000, 1, 1}).status().message, "a row of weights exceeds its largest buffer");
}

TEST(LaunchPlan, few_rows_are_shared_by_more_work_items) {
  EXPECT_EQ(decode_work(18944, kPhone).local[1], 1u);
  EXPECT_EQ(decode_work(2048, kPhone).local[1], 2u);
  EXPECT_EQ(decode_work(512, kPhone).local[1], 4u);
  EXPECT_EQ(decode_work(512, {0, 0, GiB, 2, 12}).local[1], 2u);  // no larger group
  EXPECT_EQ(decode_work(512, {0, 0, GiB, 1, 12}).local[1], 1u);
}

TEST(LaunchPlan, work_sizes_cover_the_shape_and_are_whole_groups) {
  for (const std::uint32_t rows : {1u, 3u, 64u, 65u, 700u, 5000u}) {
    for (const std::uint32_t group : {1u, 3u, 64u, 256u}) {
      const Limits limits{0, 0, GiB, group, 4};
      for (const std::uint32_t batch : {1u, 4u, 5u, 128u}) {
        const WorkSize prefill = prefill_work(rows, batch, limits);
        EXPECT_GE(prefill.global[1] * kTile, batch);
        for (const WorkSize& work : {decode_work(rows, limits), prefill}) {
          EXPECT_GE(work.global[0], rows);
          EXPECT_EQ(work.global[0] % work.local[0], 0u);
          EXPECT_EQ(work.global[1] % work.local[1], 0u);
          EXPECT_LE(work.local[0] * work.local[1], group);
        }
      }
    }
  }
}

}  // namespace
}  // namespace vitro::test
