#include "engine/base/recency_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kBlocks = 40;

// What it has to do, in the plainest way: oldest first.
struct Plain {
  std::list<std::uint32_t> blocks;
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
      switch (rng.next() % 8) {
        case 0:
          if (plain.contains(block)) {
            list.erase(block);
            plain.blocks.remove(block);
          } else {
            list.push_newest(block);
            plain.blocks.push_back(block);
          }
          break;
        case 1:
          held = rng.next() & rng.next();
          break;
        case 2: {
          const std::optional<std::uint32_t> oldest = list.oldest_without(is_held);
          ASSERT_EQ(oldest, plain.oldest_without(is_held));
          if (!oldest || rng.next() % 2 == 0) break;
          list.erase(*oldest);
          plain.blocks.remove(*oldest);
          break;
        }
        default:
          if (!plain.contains(block)) break;
          list.touch(block);
          plain.blocks.remove(block);
          plain.blocks.push_back(block);
      }
      ASSERT_EQ(list.size(), plain.blocks.size());
      if (!plain.blocks.empty()) {
        ASSERT_EQ(list.oldest(), plain.blocks.front());
      }
    }
  }
}

}  // namespace
}  // namespace vitro
