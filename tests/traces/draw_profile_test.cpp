#include "traces/draw_profile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

TEST(DrawProfile, a_curve_goes_through_its_points_and_falls_between_them) {
  FiringProfile firing;
  firing.curve = {{0.01, 0.5}, {0.75, 0.02}, {1, 0.001}};
  const std::vector<double> p = firing_curve(firing, 1000);
  EXPECT_DOUBLE_EQ(p[0], 0.5) << "level before the first point";
  EXPECT_DOUBLE_EQ(p[9], 0.5);
  EXPECT_DOUBLE_EQ(p[749], 0.02);
  EXPECT_DOUBLE_EQ(p[999], 0.001);
  EXPECT_TRUE(std::is_sorted(p.rbegin(), p.rend()));
  // Half way between the first two in the logarithm of the rank: the geometric mean of their probabilities.
  EXPECT_NEAR(p[static_cast<std::size_t>(std::lround(1000 * std::sqrt(0.01 * 0.75))) - 1], 0.1, 0.001);
}

TEST(DrawProfile, beyond_the_last_point_a_curve_is_level) {
  FiringProfile firing;
  firing.curve = {{0.5, 0.3}};
  for (const double p : firing_curve(firing, 10)) EXPECT_DOUBLE_EQ(p, 0.3);
}

TEST(DrawProfile, false_alarms_make_the_precision) {
  const std::vector<double> firing = firing_curve({0.1, 0.7, {}}, 4096);
  const std::vector<double> alarms = false_alarms(firing, {0.9, 0.75});
  double right = 0, wrong = 0;
  for (std::size_t r = 0; r < firing.size(); ++r) {
    right += 0.9 * firing[r];
    wrong += (1 - firing[r]) * alarms[r];
  }
  EXPECT_NEAR(right / (right + wrong), 0.75, 1e-9);
  EXPECT_TRUE(std::is_sorted(alarms.rbegin(), alarms.rend()));
}

TEST(DrawProfile, values_out_of_range_are_refused) {
  const auto refused = [](auto change) {
    DrawProfile profile;
    change(profile);
    EXPECT_THROW(check(profile), ConfigError);
  };
  refused([](DrawProfile& p) { p.layers[0].curve = {{0.5, 0.1}, {0.4, 0.1}}; });
  refused([](DrawProfile& p) { p.layers[0].curve = {{0.5, 0.1}, {0.6, 0.2}}; });
  refused([](DrawProfile& p) { p.layers[0].curve = {{0.5, 0}}; });
  refused([](DrawProfile& p) { p.expert_persistence = 1.1; });
  refused([](DrawProfile& p) { p.task_share = -0.1; });
  EXPECT_NO_THROW(check(DrawProfile{}));
}

}  // namespace
}  // namespace vitro
