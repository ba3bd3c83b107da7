#include "hw_models/ufs/read_groups.hpp"

#include <gtest/gtest.h>

#include "engine/base/rng.hpp"

namespace vitro::hw {
namespace {

constexpr Picoseconds kUs{1'000'000};

// 4 KiB take 1 us on the link.
ReadGroups groups(Picoseconds overhead = Picoseconds(0)) { return ReadGroups(overhead, BytesPerSecond{4.096e9}); }

std::vector<TimedRead> pages(std::size_t count) {
  std::vector<TimedRead> reads(count);
  for (std::size_t i = 0; i < count; ++i) reads[i].request = {i * 10 * kPageSize, kPageSize};
  return reads;
}

TEST(ReadGroups, a_group_passes_when_its_last_read_is_ready_and_never_waits_on_the_link) {
  ReadGroups some = groups();
  const std::uint32_t group = some.add(pages(3), 7, kUs);
  some.enters(group);
  EXPECT_EQ(some.head_start(), 3 * kUs);
  EXPECT_FALSE(some.note_ready(group, 14 * kUs, kPageSize));
  EXPECT_FALSE(some.note_ready(group, 11 * kUs, kPageSize));
  EXPECT_TRUE(some.note_ready(group, 12 * kUs, kPageSize));
  EXPECT_EQ(some[group].transfer.begin, 12 * kUs) << "11, 12 and 14: the third follows two that take 1 us each";
  EXPECT_EQ(some[group].transfer.transfers, 3 * kUs);
  EXPECT_EQ(some[group].transfer.bytes, 3 * kPageSize);
  EXPECT_EQ(some[group].leader, 7u);
  EXPECT_EQ(some.head_start(), Picoseconds(0)) << "nobody is inside";
}

// One by one: each takes an idle link when it is ready, in that order.
TEST(ReadGroups, it_ends_when_its_reads_would_end_one_by_one) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    Rng rng(seed);
    const Picoseconds overhead = rng.below(2) * kUs / 3;
    ReadGroups some = groups(overhead);
    const std::size_t count = 1 + rng.below(20);
    const std::uint32_t group = some.add(pages(count), 0, kUs);
    some.enters(group);
    std::vector<Picoseconds> ready;
    for (std::size_t i = 0; i < count; ++i) {
      ready.push_back(static_cast<std::int64_t>(rng.below(30)) * kUs / 2);
      EXPECT_EQ(some.note_ready(group, ready.back(), kPageSize), i + 1 == count);
    }
    std::ranges::sort(ready);
    Picoseconds end{0};
    for (const Picoseconds when : ready) end = std::max(end, when) + overhead + kUs;
    EXPECT_EQ(some[group].transfer.begin + some[group].transfer.transfers, end) << "seed " << seed;
  }
}

TEST(ReadGroups, numbers_are_used_again_without_what_was_before) {
  ReadGroups some = groups();
  const std::uint32_t first = some.add(pages(1), 1, kUs);
  some.enters(first);
  EXPECT_TRUE(some.one_ends_at(kPageSize));
  some.note_ready(first, 50 * kUs, kPageSize);
  some.remove(first);
  EXPECT_FALSE(some.one_ends_at(kPageSize));
  EXPECT_EQ(some.add(pages(1), 2, kUs), first);
  some.enters(first);
  EXPECT_TRUE(some.note_ready(first, 5 * kUs, kPageSize));
  EXPECT_EQ(some[first].transfer.begin, 5 * kUs);
}

TEST(ReadGroups, only_a_random_read_on_its_way_ends_a_stream) {
  ReadGroups some = groups();
  std::vector<TimedRead> reads = pages(2);
  reads[1].request.sequential = true;
  some.add(reads, 0, kUs);
  EXPECT_TRUE(some.one_ends_at(kPageSize));
  EXPECT_FALSE(some.one_ends_at(11 * kPageSize));
}

}  // namespace
}  // namespace vitro::hw
