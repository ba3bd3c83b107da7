#include "hw_models/ufs/flash_timeline.hpp"

#include <gtest/gtest.h>

#include "engine/base/check.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

// Sensing takes 10 us, 4 KiB take 1 us on a channel and next to nothing on the link. A stripe of 16 KiB keeps its die 14 us.
constexpr Bytes kStripe = 16 * KiB;
constexpr FlashTimeline::Spec kTwoOnOneChannel{1, 2, 11 * kUs, kStripe, {4.096e9}, {4096e9}};

FlashTimeline::Spec with_link(double bytes_per_second) {
  FlashTimeline::Spec spec = kTwoOnOneChannel;
  spec.link = {bytes_per_second};
  return spec;
}

// Reads 4 KiB of a stripe.
Picoseconds sector(FlashTimeline& flash, std::uint64_t order, std::uint64_t stripe, Picoseconds now = Picoseconds(0)) {
  return flash.read(now, order, stripe * kStripe, 4 * KiB);
}

TEST(FlashTimeline, reads_of_one_die_follow_each_other_and_those_of_two_overlap) {
  FlashTimeline flash(kTwoOnOneChannel);
  EXPECT_EQ(sector(flash, 1, 0), 11 * kUs);
  EXPECT_EQ(sector(flash, 2, 2), 22 * kUs);
  EXPECT_EQ(sector(flash, 3, 1), 12 * kUs);  // sensed at 10 us, as the first
  EXPECT_EQ(sector(flash, 4, 1, 100 * kUs), 111 * kUs);
}

TEST(FlashTimeline, dies_have_their_channel_to_themselves_when_there_are_as_many) {
  FlashTimeline::Spec spec = kTwoOnOneChannel;
  spec.channels = 2;
  FlashTimeline flash(spec);
  EXPECT_EQ(sector(flash, 1, 0), 11 * kUs);
  EXPECT_EQ(sector(flash, 2, 1), 11 * kUs);
}

TEST(FlashTimeline, a_page_crosses_in_what_earlier_ones_left_of_the_channel) {
  FlashTimeline flash(kTwoOnOneChannel);
  sector(flash, 1, 0);                                                // 10 to 11 us
  sector(flash, 2, 0);                                                // 21 to 22 us
  EXPECT_EQ(flash.read(8 * kUs, 3, kStripe, kStripe) / kNs, 22'997);  // 18 to 21 and 22 to 23 us; three sectors take the link 3 ns
}

TEST(FlashTimeline, a_transfer_starts_such_that_it_ends_with_the_last_sector) {
  FlashTimeline slow(with_link(1.024e9)), equal(with_link(4.096e9)), fast(with_link(8.192e9));
  EXPECT_EQ(slow.read(Picoseconds(0), 1, 0, kStripe), 11 * kUs);
  EXPECT_EQ(equal.read(Picoseconds(0), 1, 0, kStripe), 11 * kUs);
  EXPECT_EQ(fast.read(Picoseconds(0), 1, 0, kStripe), 14 * kUs - 3 * kUs / 2);
}

TEST(FlashTimeline, what_two_channels_bring_at_a_time_waits_for_the_link) {
  FlashTimeline::Spec spec = with_link(8.192e9);
  spec.channels = 2;
  FlashTimeline flash(spec);
  EXPECT_EQ(flash.read(Picoseconds(0), 1, 0, 2 * kStripe), 11 * kUs);  // the link takes as much as both bring
}

TEST(FlashTimeline, an_older_command_crosses_first_and_the_younger_keeps_its_die_longer) {
  FlashTimeline flash(kTwoOnOneChannel);
  flash.read(Picoseconds(0), 5, 0, kStripe);                     // crosses from 10 to 14 us
  EXPECT_EQ(sector(flash, 4, 1, 2 * kUs), 13 * kUs + kUs / 2);   // sensed at 12 us, and half a sector was left
  EXPECT_EQ(sector(flash, 6, 2, 3 * kUs), 15 * kUs + 11 * kUs);  // the first die was to be free at 14 us
  FlashTimeline alone(kTwoOnOneChannel);
  alone.read(Picoseconds(0), 5, 0, kStripe);
  EXPECT_EQ(sector(alone, 6, 2, 3 * kUs), 14 * kUs + 11 * kUs);
}

TEST(FlashTimeline, a_map_page_waits_for_its_die_but_for_no_other_page) {
  FlashTimeline flash(kTwoOnOneChannel);
  flash.read(Picoseconds(0), 1, 0, kStripe);
  EXPECT_EQ(flash.read_map(2 * kUs, 1), 13 * kUs + kUs / 2);
  EXPECT_EQ(flash.read_map(2 * kUs, 2), 26 * kUs);
}

TEST(FlashTimeline, flash_that_takes_no_time_is_never_waited_for) {
  FlashTimeline flash({1, 1, Picoseconds(0), 64 * KiB, {1e12}, {1e9}});
  EXPECT_EQ(sector(flash, 2, 0), Picoseconds(0));
  EXPECT_EQ(flash.read_map(Picoseconds(0), 0), Picoseconds(0));
  EXPECT_EQ(sector(flash, 1, 0), Picoseconds(0));
}

}  // namespace
}  // namespace vitro::hw
