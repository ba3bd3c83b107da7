#include "engine/base/recency_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kBlocks = 40;
constexpr std::size_t kMarks = 3;

// What it has to do, in the plainest way: oldest first.
struct Plain {
  std::list<std::uint32_t> blocks;
  std::vector<int> used = std::vector<int>(kBlocks);  // when
  std::deque<int> marks;
  void push_newest(std::uint32_t block, int now) {
    blocks.push_back(block);
    used[block] = now;
  }
  void touch(std::uint32_t block, int now) {
    blocks.remove(block);
    push_newest(block, now);
  }
  bool contains(std::uint32_t block) const { return std::find(blocks.begin(), blocks.end(), block) != blocks.end(); }
  template <class Held>
  std::optional<std::uint32_t> oldest_without(Held held) const {
    const auto found = std::find_if_not(blocks.begin(), blocks.end(), held);
    return found == blocks.end() ? std::nullopt : std::optional(*found);
  }
};

// Enough uses that the line of uses closes its ranks many times, with searches that pass held blocks in between.
TEST(RecencyList, does_what_a_plain_list_does) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Rng rng(seed);
    Plain plain;
    RecencyList list(kBlocks);
    std::uint64_t held = 0;  // bits
    const auto is_held = [&](std::uint32_t block) { return (held >> block & 1) != 0; };
    for (int i = 0; i < 30'000; ++i) {
      const auto block = static_cast<std::uint32_t>(rng.next() % kBlocks);
      ASSERT_EQ(list.contains(block), plain.contains(block));
      switch (rng.next() % 10) {
        case 0:
          if (plain.contains(block)) {
            list.erase(block);
            plain.blocks.remove(block);
          } else {
            list.push_newest(block);
            plain.push_newest(block, i);
          }
          break;
        case 1:
          if (rng.next() % 2 == 0) {
            held |= rng.next() & rng.next() & rng.next();
          } else {
            held = rng.next() & rng.next();
            list.release();
          }
          break;
        case 2: {
          const std::optional<std::uint32_t> oldest = list.oldest_without(is_held);
          ASSERT_EQ(oldest, plain.oldest_without(is_held));
          if (!oldest || rng.next() % 2 == 0) break;
          list.erase(*oldest);
          plain.blocks.remove(*oldest);
          break;
        }
        case 3: {
          list.mark(kMarks);
          plain.marks.push_back(i);
          if (plain.marks.size() > kMarks) plain.marks.pop_front();
          break;
        }
        case 4: {  // several in one go, one of them perhaps twice
          std::vector<std::uint32_t> used;
          for (std::uint64_t n = rng.next() % 8; used.size() < n && !plain.blocks.empty();) {
            used.push_back(plain.blocks.front());
            plain.touch(used.back(), i);
            if (rng.next() % 4 == 0) used.push_back(used.back());
          }
          list.touch(used);
          break;
        }
        default:
          if (!plain.contains(block)) break;
          list.touch(block);
          plain.touch(block, i);
      }
      ASSERT_EQ(list.size(), plain.blocks.size());
      if (plain.contains(block)) {
        ASSERT_EQ(list.used_since_first_mark(block), plain.marks.empty() || plain.used[block] > plain.marks.front());
      }
      if (i % 50 == 0 && !plain.blocks.empty()) {
        ASSERT_EQ(list.oldest(), plain.blocks.front());
        list.release();
      }
    }
  }
}

TEST(RecencyList, what_is_held_back_is_asked_about_once_until_it_is_released) {
  RecencyList list(1000);
  for (std::uint32_t block = 0; block < 1000; ++block) list.push_newest(block);
  int asked = 0;
  const auto held = [&asked](std::uint32_t block) {
    ++asked;
    return block < 900;
  };
  for (std::uint32_t oldest = 900; oldest < 1000; ++oldest) {
    ASSERT_EQ(list.oldest_without(held), oldest);
    list.erase(oldest);
  }
  EXPECT_EQ(list.oldest_without(held), std::nullopt);
  EXPECT_EQ(asked, 1000);
  list.release();
  EXPECT_EQ(list.oldest_without([](std::uint32_t block) { return block < 5; }), 5u);
}

// What a caller requests from memory is of the list, and is evicted soon.
TEST(RecencyList, a_block_to_come_is_one_that_leaves_a_few_evictions_later) {
  RecencyList list(100);
  EXPECT_FALSE(list.upcoming());
  for (std::uint32_t block = 0; block < 40; ++block) list.push_newest(99 - block);
  for (std::uint32_t evicted = 0; evicted < 40; ++evicted) {
    ASSERT_EQ(list.oldest(), 99 - evicted);
    const std::optional<std::uint32_t> soon = list.upcoming();
    if (evicted < 20) {
      ASSERT_TRUE(soon);
      EXPECT_LT(*soon, list.oldest());
      EXPECT_TRUE(list.contains(*soon));
    }
    if (evicted == 39) {
      EXPECT_FALSE(soon) << "nothing comes after the last one";
    }
    list.erase(list.oldest());
  }
}

}  // namespace
}  // namespace vitro
