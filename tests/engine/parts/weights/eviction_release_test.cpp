#include <gtest/gtest.h>

#include <bit>
#include <optional>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/parts/weights/eviction.hpp"

namespace vitro {
namespace {

// Rules may pass over what was held back until they hear that it is no longer. One of each pair hears it before each search.
TEST(Eviction, the_victim_is_the_same_whether_or_not_a_rule_asks_again_about_what_is_held_back) {
  constexpr std::uint32_t kBlocks = 40;
  for (const char* name : {"lru", "step_lru", "lfu", "arc", "window", "popularity", "router"}) {
    Rng rng(11);
    const auto make = [&] { return make_eviction(name, {.blocks = kBlocks, .capacity = kBlocks / 2, .window = 3, .layers = 2}); };
    const auto rule = make(), asks_again = make();
    const auto both = [&](auto tell) {
      tell(*rule);
      tell(*asks_again);
    };
    std::uint64_t resident = 0, pinned = 0;  // bits
    int found = 0;
    const auto held = [&pinned](std::uint32_t block) { return (pinned >> block & 1) != 0; };
    for (int i = 0; i < 20'000; ++i) {
      const auto block = static_cast<std::uint32_t>(rng.next() % kBlocks);
      const std::uint64_t bit = std::uint64_t{1} << block;
      switch (rng.next() % 32) {
        case 0:
          both([](Eviction& e) { e.next_layer(); });
          rule->release();
          pinned = 0;
          break;
        case 1: {
          const std::vector<std::uint32_t> left = rule->next_token();
          ASSERT_EQ(asks_again->next_token(), left) << name;
          for (const std::uint32_t gone : left) {
            both([&](Eviction& e) { e.erase(gone); });
            resident &= ~(std::uint64_t{1} << gone);
          }
          break;
        }
        default:
          both([&](Eviction& e) { e.weigh(block, static_cast<float>(1 + i % 8)); });
          pinned |= bit;
          if ((resident & bit) != 0) {
            both([&](Eviction& e) { e.touch(block); });
            break;
          }
          if (static_cast<std::uint32_t>(std::popcount(resident)) == kBlocks / 2) {
            asks_again->release();
            const std::optional<std::uint32_t> victim = rule->victim(held);
            ASSERT_EQ(asks_again->victim(held), victim) << name << " " << i;
            if (!victim) break;
            ++found;
            both([&](Eviction& e) { e.erase(*victim); });
            resident &= ~(std::uint64_t{1} << *victim);
          }
          both([&](Eviction& e) { e.insert(block); });
          resident |= bit;
      }
    }
    EXPECT_GT(found, 500) << name;
  }
}

}  // namespace
}  // namespace vitro
