#include "engine/model/npu_int4.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace vitro {
namespace {

// By hand: scale 0.5 = 3.5 / 7; halves are rounded away from zero.
TEST(NpuInt4, one_scale_serves_a_channel) {
  std::vector<float> channel{3.5f, -3.5f, 0.6f, 0.25f, -0.2f, 0};
  round_to_int4_channel(channel, 0);
  EXPECT_EQ(channel, (std::vector<float>{3.5f, -3.5f, 0.5f, 0.5f, 0, 0}));
}

// One weight of 100: 254 = 127 x 2 is kept, and the others have the scale that they would have without it.
TEST(NpuInt4, an_outlier_does_not_cost_the_others_their_scale) {
  std::vector<float> plain(100, 0.5f), channel(100, 0.5f);
  plain[0] = channel[0] = 254;
  plain[1] = channel[1] = 3.5f;
  round_to_int4_channel(channel, 0.01);
  EXPECT_EQ(channel[0], 254);
  EXPECT_EQ(channel[1], 3.5f);
  EXPECT_EQ(channel[2], 0.5f);
  round_to_int4_channel(plain, 0);
  EXPECT_EQ(plain[2], 0);
}

TEST(NpuInt4, zeros_stay_zeros) {
  std::vector<float> channel(8, 0.0f);
  round_to_int4_channel(channel, 0.01);
  for (const float x : channel) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace vitro
