#include "hw_models/ufs/ftl.hpp"

#include <gtest/gtest.h>

#include <map>

#include "engine/base/check.hpp"
#include "engine/base/rng.hpp"

namespace vitro::hw {
namespace {

// 8 TLC superblocks of 16 sectors over 2 dies in stripes of 2, half of them filled; 2 SLC superblocks of 4 sectors.
constexpr FtlSpec kSpec{2, 2, 16, 8, 2, 64};

std::vector<std::uint64_t> pair(std::uint64_t a) { return {a, a + 1}; }

TEST(Ftl, a_filled_device_holds_data_in_place_spread_over_dies) {
  const Ftl ftl(kSpec);
  EXPECT_EQ(ftl.find(17), (Ftl::Place{1, 1}));
  EXPECT_EQ(ftl.die(ftl.find(0)), 0u);
  EXPECT_EQ(ftl.die(ftl.find(1)), 0u);
  EXPECT_EQ(ftl.die(ftl.find(2)), 1u);
  EXPECT_EQ(ftl.die(ftl.find(4)), 0u);
  EXPECT_EQ(ftl.total_valid(), 64u);
  EXPECT_EQ(ftl.free(Pool::tlc), 4u);
}

TEST(Ftl, a_write_moves_the_sector_and_invalidates_its_old_place) {
  Ftl ftl(kSpec);
  const Ftl::Place place = ftl.append(Pool::tlc, pair(5));
  EXPECT_EQ(ftl.find(5), place);
  EXPECT_EQ(ftl.find(6), (Ftl::Place{place.superblock, place.sector + 1}));
  EXPECT_EQ(ftl.valid(0), 14u);
  EXPECT_EQ(ftl.total_valid(), 64u);
  EXPECT_EQ(ftl.valid_sectors(0, 4, 4), (std::vector<std::uint64_t>{4, 7}));
}

TEST(Ftl, a_sector_written_for_the_first_time_adds_to_the_valid_ones) {
  Ftl ftl(kSpec);
  ftl.append(Pool::slc, pair(100));
  EXPECT_EQ(ftl.total_valid(), 66u);
  EXPECT_EQ(ftl.pool(ftl.find(100).superblock), Pool::slc);
}

TEST(Ftl, a_stripe_may_hold_one_sector_twice) {
  Ftl ftl(kSpec);
  const Ftl::Place place = ftl.append(Pool::tlc, std::vector<std::uint64_t>{3, 3});
  EXPECT_EQ(ftl.find(3), (Ftl::Place{place.superblock, place.sector + 1}));
  EXPECT_EQ(ftl.total_valid(), 64u);
}

TEST(Ftl, the_victim_is_the_full_superblock_with_the_fewest_valid_sectors) {
  Ftl ftl(kSpec);
  EXPECT_FALSE(ftl.take_victim(Pool::tlc));  // nothing to gain anywhere
  ftl.append(Pool::tlc, pair(32));
  ftl.append(Pool::tlc, pair(20));
  ftl.append(Pool::tlc, pair(34));
  EXPECT_EQ(ftl.take_victim(Pool::tlc), 2u);
  EXPECT_EQ(ftl.take_victim(Pool::tlc), 1u);
}

TEST(Ftl, a_superblock_with_valid_sectors_is_not_erased) {
  Ftl ftl(kSpec);
  ftl.append(Pool::tlc, pair(0));
  const std::uint32_t victim = *ftl.take_victim(Pool::tlc);
  EXPECT_DEATH(ftl.erased(victim), "valid");
}

// Random overwriting with collection by hand: every sector that was written last somewhere is found there.
TEST(Ftl, overwriting_and_collecting_conserves_what_is_valid) {
  Ftl ftl(kSpec);
  Rng rng(7);
  std::map<std::uint64_t, bool> written;
  for (std::uint64_t i = 0; i < 64; ++i) written[i] = true;
  for (int step = 0; step < 2000; ++step) {
    while (ftl.free(Pool::tlc) <= 2) {
      const auto victim = ftl.take_victim(Pool::tlc);
      ASSERT_TRUE(victim);
      const std::uint64_t before = ftl.total_valid();
      for (std::uint32_t first = 0; first < 16; first += 2) {
        const std::vector<std::uint64_t> valid = ftl.valid_sectors(*victim, first, 2);
        if (!valid.empty()) ftl.append(Pool::tlc, valid);
      }
      ftl.erased(*victim);
      EXPECT_EQ(ftl.total_valid(), before);
    }
    const std::uint64_t sector = rng.below(35) * 2;  // up to 70: six of them were never filled
    ftl.append(Pool::tlc, pair(sector));
    written[sector] = written[sector + 1] = true;
    ASSERT_EQ(ftl.total_valid(), written.size());
  }
  for (const auto& [sector, yes] : written) {
    const Ftl::Place place = ftl.find(sector);
    EXPECT_EQ(ftl.valid_sectors(place.superblock, place.sector, 1), std::vector{sector});
  }
}

}  // namespace
}  // namespace vitro::hw
