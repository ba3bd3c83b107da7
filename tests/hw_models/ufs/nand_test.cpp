#include "hw_models/ufs/nand.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/check.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

// tR 20 us, 1 us per sector on a channel, two channels of two dies (0, 2 and 1, 3), four sectors per die operation.
struct Array : NandClient {
  explicit Array(double retry = 0) : nand(context, 1, {2, 2, 2, 8 * KiB, 20 * kUs, 1000 * kUs, {4.096e9}, retry, 50 * kUs}) {}
  void sector_arrived(std::uint64_t tag, std::uint32_t) override { sectors.emplace_back(tag, context.now()); }
  void operation_done(std::uint64_t tag) override { done.emplace_back(tag, context.now()); }
  void submit(NandOperation::Kind kind, std::uint32_t die, std::uint32_t n, std::uint64_t tag, std::uint64_t order = 0) {
    nand.submit({kind, die, n, 300 * kUs, order, this, tag});
  }
  void read(std::uint32_t die, std::uint32_t n, std::uint64_t tag, std::uint64_t order = 0) {
    submit(NandOperation::Kind::read, die, n, tag, order);
  }
  Picoseconds end(std::uint64_t tag) const {
    for (const auto& [t, when] : done) {
      if (t == tag) return when;
    }
    return Picoseconds(-1);
  }

  TestContext context;
  NandArray nand;
  std::vector<std::pair<std::uint64_t, Picoseconds>> sectors, done;
};

TEST(NandArray, a_page_read_waits_for_tr) {
  Array array;
  array.read(0, 1, 1);
  array.context.run_until(21 * kUs - Picoseconds(1));
  EXPECT_TRUE(array.sectors.empty());
  array.context.run_until(21 * kUs);
  EXPECT_EQ(array.sectors.size(), 1u);
  EXPECT_EQ(array.end(1), 21 * kUs);
}

TEST(NandArray, two_reads_on_one_die_serialise) {
  Array array;
  array.read(0, 1, 1);
  array.read(0, 1, 2);
  array.context.run();
  EXPECT_EQ(array.end(1), 21 * kUs);
  EXPECT_EQ(array.end(2), 42 * kUs);
}

TEST(NandArray, two_reads_on_two_dies_overlap) {
  Array array;
  array.read(0, 1, 1);
  array.read(1, 1, 2);
  array.context.run();
  EXPECT_EQ(array.end(1), 21 * kUs);
  EXPECT_EQ(array.end(2), 21 * kUs);
}

TEST(NandArray, dies_of_one_channel_share_it) {
  Array array;
  array.read(0, 4, 1);
  array.read(2, 4, 2);
  array.context.run();
  EXPECT_EQ(std::max(array.end(1), array.end(2)), 28 * kUs);
  EXPECT_EQ(array.sectors.size(), 8u);
}

TEST(NandArray, planes_are_sensed_together) {
  Array array;
  array.read(0, 4, 1);
  array.context.run();
  EXPECT_EQ(array.end(1), 24 * kUs);  // one tR, four sectors
}

TEST(NandArray, the_channel_serves_the_older_command_first) {
  Array array;
  array.read(0, 4, 1, 9);
  array.read(2, 4, 2, 3);
  array.context.run();
  EXPECT_EQ(array.end(2), 25 * kUs);  // behind the one sector that was on its way
  EXPECT_EQ(array.end(1), 28 * kUs);
}

TEST(NandArray, reads_overtake_programs_that_wait_but_not_one_that_runs) {
  Array array;
  array.submit(NandOperation::Kind::program, 0, 4, 1);
  array.submit(NandOperation::Kind::program, 0, 4, 2);
  array.read(0, 1, 3);
  array.context.run();
  EXPECT_EQ(array.end(1), 304 * kUs);
  EXPECT_EQ(array.end(3), 325 * kUs);
  EXPECT_EQ(array.end(2), 629 * kUs);
}

TEST(NandArray, an_erase_takes_the_die) {
  Array array;
  array.submit(NandOperation::Kind::erase, 0, 0, 1);
  array.read(0, 1, 2);
  array.context.run();
  EXPECT_EQ(array.end(1), 1000 * kUs);
  EXPECT_EQ(array.end(2), 1021 * kUs);
}

TEST(NandArray, retries_come_as_often_as_they_should_and_always_the_same_way) {
  Array array(0.1), again(0.1);
  for (std::uint64_t i = 0; i < 4000; ++i) {
    array.read(0, 1, i);
    again.read(0, 1, i);
  }
  array.context.run();
  again.context.run();
  const double retries = to_seconds(array.context.now() - 4000 * 21 * kUs) / 50e-6;
  EXPECT_NEAR(retries, 400, 4 * std::sqrt(4000 * 0.1 * 0.9));
  EXPECT_EQ(array.done, again.done);
}

TEST(NandArray, an_operation_stays_on_one_die) {
  Array array;
  EXPECT_DEATH(array.read(4, 1, 0), "one die");
  EXPECT_DEATH(array.read(0, 5, 0), "one die");
}

}  // namespace
}  // namespace vitro::hw
