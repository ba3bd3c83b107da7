#include "hw_models/ufs/write_path.hpp"

#include <gtest/gtest.h>

#include "engine/base/check.hpp"
#include "engine/base/rng.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

// Two dies, stripes of two sectors, superblocks of 16 sectors (SLC: 4). Programs take 10 us to SLC and 100 us to TLC.
struct Device {
  explicit Device(std::uint32_t slc_superblocks = 4, std::uint64_t filled = 64)
      : nand(context, 1, {1, 2, 2, 4 * KiB, 5 * kUs, 50 * kUs, {40.96e9}, 0, Picoseconds(0)}),
        ftl({2, 2, 16, 10, slc_superblocks, filled}),
        path(context, 1, nand, ftl, {8, 100 * kUs, 10 * kUs, kMs, 2}) {}
  // One command; remembers when it had its memory.
  void write(std::uint64_t first, std::uint32_t sectors) {
    path.host_active();
    const std::size_t i = granted.size();
    granted.push_back(Picoseconds(-1));
    path.reserve(sectors, [this, i, first, sectors] {
      granted[i] = context.now();
      path.store(first, sectors);
    });
  }
  TestContext context;
  NandArray nand;
  Ftl ftl;
  WritePath path;
  std::vector<Picoseconds> granted;
};

TEST(WritePath, memory_takes_what_fits_and_the_rest_waits_for_programs) {
  Device device;
  for (unsigned i = 0; i < 6; ++i) device.write(2 * i, 2);
  EXPECT_EQ(device.granted[3], Picoseconds(0));
  EXPECT_EQ(device.granted[4], Picoseconds(-1));
  device.context.run();
  EXPECT_GE(device.granted[4], 10 * kUs);
  EXPECT_LT(device.granted[4], 11 * kUs);
}

TEST(WritePath, data_is_found_in_memory_until_it_is_programmed) {
  Device device;
  device.write(8, 2);
  EXPECT_TRUE(device.path.holds(8));
  EXPECT_FALSE(device.path.holds(10));
  device.context.run();
  EXPECT_FALSE(device.path.holds(8));
  EXPECT_EQ(device.ftl.pool(device.ftl.find(8).superblock), Pool::slc);
}

TEST(WritePath, goes_to_tlc_when_the_slc_buffer_is_full) {
  Device device;
  for (unsigned i = 0; i < 10; ++i) device.write(2 * i, 2);
  device.context.run();
  EXPECT_EQ(device.path.totals().to_slc, 16u);
  EXPECT_EQ(device.path.totals().to_tlc, 4u);
}

TEST(WritePath, folds_when_the_host_is_quiet_and_not_before) {
  Device device;
  for (unsigned i = 0; i < 8; ++i) device.write(2 * i, 2);
  device.context.run();
  device.path.host_quiet();
  const Picoseconds quiet = device.context.now() + kMs;
  device.context.run_until(quiet - Picoseconds(1));
  EXPECT_EQ(device.path.totals().folded, 0u);
  device.context.run();
  EXPECT_EQ(device.path.totals().folded, 16u);
  EXPECT_EQ(device.path.totals().erased, 4u);
  EXPECT_EQ(device.ftl.free(Pool::slc), 4u);
  EXPECT_EQ(device.ftl.total_valid(), 64u);
  for (std::uint64_t sector = 0; sector < 16; ++sector) EXPECT_EQ(device.ftl.pool(device.ftl.find(sector).superblock), Pool::tlc);
}

TEST(WritePath, a_command_stops_folding) {
  Device device;
  for (unsigned i = 0; i < 8; ++i) device.write(2 * i, 2);
  device.context.run();
  device.path.host_quiet();
  device.context.run_until(device.context.now() + kMs / 2);
  device.path.host_active();
  device.context.run();
  EXPECT_EQ(device.path.totals().folded, 0u);
}

TEST(WritePath, collection_regains_space_and_conserves_valid_sectors) {
  Device device(0, 96);  // 6 of 10 superblocks filled
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    device.write(rng.below(48) * 2, 2);
    device.context.run();
    ASSERT_EQ(device.ftl.total_valid(), 96u) << i;
  }
  EXPECT_EQ(device.path.totals().to_tlc, 4000u);
  EXPECT_GT(device.path.totals().collected, 0u);
  EXPECT_GT(device.path.totals().erased, 200u);
  EXPECT_GE(device.ftl.free(Pool::tlc), 1u);
}

TEST(WritePath, a_fuller_device_moves_more_to_regain_the_same) {
  const auto moved = [](std::uint64_t filled) {
    Device device(0, filled);
    Rng rng(3);
    for (int i = 0; i < 1000; ++i) device.write(rng.below(filled / 2) * 2, 2);
    device.context.run();
    return device.path.totals().collected;
  };
  EXPECT_LT(moved(48), moved(96));
}

// All writes are submitted at once: folding, collection and the host compete, and none may wait for the other for ever.
TEST(WritePath, a_host_that_never_pauses_is_served_to_the_end) {
  Device device(2, 80);
  Rng rng(5);
  for (int i = 0; i < 500; ++i) {
    device.write(rng.below(40) * 2, 2);
    if (i % 50 == 0) device.path.host_quiet();
  }
  device.context.run();
  for (const Picoseconds when : device.granted) EXPECT_GE(when, Picoseconds(0));
  EXPECT_EQ(device.path.totals().to_slc + device.path.totals().to_tlc, 1000u);
  EXPECT_EQ(device.ftl.total_valid(), 80u);
}

}  // namespace
}  // namespace vitro::hw
