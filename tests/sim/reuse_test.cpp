#include "sim/reuse.hpp"

#include <gtest/gtest.h>

namespace vitro::sim {
namespace {

KernelCall product(std::uint64_t id, std::uint32_t position = 0) {
  auto block = std::make_shared<Block>();
  block->id = id;
  View weights;
  weights.memory = Lease(std::move(block));
  KernelCall call;
  call.op = ops::Matmul{};
  call.in = {weights};
  call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{0, position});
  return call;
}

TEST(ReuseTracker, a_first_read_was_never_before) {
  ReuseTracker tracker(1);
  EXPECT_EQ(tracker.begin(product(1), 0, 100).anywhere, ~Bytes{0});
}

TEST(ReuseTracker, the_distance_is_what_moved_since_the_operand_was_read_last) {
  ReuseTracker tracker(2);
  tracker.begin(product(1), 0, 100);
  tracker.begin(product(2), 0, 30);
  tracker.begin(product(3), 1, 7);
  const ReuseTracker::Distance since = tracker.begin(product(1), 0, 100);
  EXPECT_EQ(since.here, 130u);
  EXPECT_EQ(since.anywhere, 137u);
}

TEST(ReuseTracker, slices_of_one_matrix_are_told_apart) {
  ReuseTracker tracker(1);
  KernelCall left = product(1), right = product(1);
  right.slice = {16, 16};
  tracker.begin(left, 0, 50);
  EXPECT_EQ(tracker.begin(right, 0, 50).anywhere, ~Bytes{0});
  EXPECT_EQ(tracker.begin(left, 0, 50).anywhere, 100u);
}

TEST(ReuseTracker, rows_in_any_order_count_from_the_step_before) {
  ReuseTracker tracker(1);
  const auto cluster = [](std::uint32_t position) {
    KernelCall call = product(1, position);
    call.rows = std::make_shared<const std::vector<std::uint32_t>>(1, position);
    return call;
  };
  EXPECT_EQ(tracker.begin(cluster(0), 0, 10).anywhere, ~Bytes{0});
  EXPECT_EQ(tracker.begin(cluster(0), 0, 10).anywhere, ~Bytes{0});  // other rows of the same step
  EXPECT_EQ(tracker.begin(cluster(1), 0, 10).anywhere, 10u);
  EXPECT_EQ(tracker.begin(cluster(1), 0, 10).anywhere, 20u);
}

}  // namespace
}  // namespace vitro::sim
