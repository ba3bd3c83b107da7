#include "engine/parts/ffn/neuron_cluster/neuron_cache.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

TEST(NeuronCache, a_block_that_comes_evicts_the_oldest_and_frees_its_slot) {
  NeuronCache cache(10, 2, 1, "lru");
  const std::uint32_t a = cache.take_slot(), b = cache.take_slot();
  EXPECT_TRUE(cache.admit(5, a).stays);
  EXPECT_TRUE(cache.admit(6, b).stays);
  cache.unpin_all();
  cache.touch(5);
  const std::uint32_t c = cache.take_slot();
  EXPECT_EQ(cache.free_slots(), 0u);
  const NeuronCache::Admission admission = cache.admit(7, c);
  EXPECT_TRUE(admission.stays);
  EXPECT_EQ(admission.evicted, 6u);
  EXPECT_FALSE(cache.resident(6));
  EXPECT_EQ(cache.slot_of(7), c);
  EXPECT_EQ(cache.take_slot(), b) << "the evicted block's slot is free again";
}

TEST(NeuronCache, what_is_pinned_stays_and_the_newcomer_does_not) {
  NeuronCache cache(10, 1, 1, "lru");
  cache.admit(1, cache.take_slot());
  cache.unpin_all();
  cache.pin(1);
  const std::uint32_t slot = cache.take_slot();
  EXPECT_FALSE(cache.admit(2, slot).stays);
  EXPECT_TRUE(cache.resident(1));
  cache.give_back(slot);
  cache.unpin_all();
  EXPECT_EQ(cache.admit(2, cache.take_slot()).evicted, 1u);
}

TEST(NeuronCache, blocks_could_stay_where_enough_of_the_others_is_neither_hot_nor_pinned) {
  NeuronCache cache(8, 3, 1, "lru");
  EXPECT_TRUE(cache.could_hold(0, 3));
  EXPECT_FALSE(cache.could_hold(0, 4)) << "more than there is room for";
  for (const std::uint32_t block : {0u, 1u, 2u}) cache.admit(block, cache.take_slot());
  EXPECT_TRUE(cache.could_hold(0, 3)) << "they are there, pinned or not";
  EXPECT_FALSE(cache.could_hold(2, 4)) << "0 and 1 are pinned";
  cache.unpin_all();
  EXPECT_TRUE(cache.could_hold(2, 5));
  EXPECT_FALSE(cache.could_hold(2, 6)) << "what is asked for is no room for itself";
  cache.make_hot(0);
  EXPECT_TRUE(cache.could_hold(2, 4));
  EXPECT_FALSE(cache.could_hold(2, 5)) << "hot blocks do not go";
}

TEST(NeuronCache, without_capacity_nothing_stays) {
  NeuronCache cache(4, 0, 2, "lru");
  EXPECT_FALSE(cache.admit(0, cache.take_slot()).stays);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(NeuronCache, what_a_window_leaves_behind_gives_its_slot_back) {
  NeuronCache cache(4, 2, 1, "window", 1);
  const std::uint32_t slot = cache.take_slot();
  cache.admit(3, slot);
  cache.admit(1, cache.take_slot());
  cache.unpin_all();
  EXPECT_TRUE(cache.next_token().empty());
  cache.touch(1);
  EXPECT_EQ(cache.next_token(), std::vector<std::uint32_t>{3});
  EXPECT_EQ(cache.resident_blocks(), std::vector<std::uint32_t>{1});
  EXPECT_EQ(cache.free_slots(), 2u);
  EXPECT_EQ(cache.take_slot(), slot);
}

TEST(NeuronCache, slots_are_given_out_next_to_each_other) {
  NeuronCache cache(8, 4, 4, "lru");
  std::uint32_t slot = cache.take_slot();
  for (std::uint32_t expected = 1; expected < 4; ++expected) EXPECT_EQ(slot = cache.take_slot(slot), expected);
  cache.give_back(1);
  EXPECT_EQ(cache.take_slot(slot), 4u) << "behind the last one, not the hole before it";
  EXPECT_EQ(cache.take_slot(), 1u);
}

// Random planning steps: no two blocks share a slot, pins hold, counts add up.
TEST(NeuronCache, random_steps_keep_every_slot_in_one_hand) {
  for (const std::string& eviction : evictions().names()) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Rng rng(seed);
      constexpr std::uint32_t kBlocks = 50, kCapacity = 12, kStaging = 6;
      NeuronCache cache(kBlocks, kCapacity, kStaging, eviction);
      for (int step = 0; step < 300; ++step) {
        std::set<std::uint32_t> wanted;
        for (int i = 0; i < 6; ++i) wanted.insert(static_cast<std::uint32_t>(rng.next() % kBlocks));
        std::map<std::uint32_t, std::uint32_t> loads;
        for (const std::uint32_t block : wanted) {
          if (cache.resident(block)) {
            cache.pin(block);
          } else {
            loads[block] = cache.take_slot();
          }
        }
        const std::set<std::uint32_t> hits = [&] {
          std::set<std::uint32_t> out;
          for (const std::uint32_t block : wanted) {
            if (cache.resident(block)) out.insert(block);
          }
          return out;
        }();
        for (const auto& [block, slot] : loads) {
          if (!cache.admit(block, slot).stays) cache.give_back(slot);
        }
        for (const std::uint32_t block : hits) ASSERT_TRUE(cache.resident(block)) << "a pinned block went";
        cache.unpin_all();
        for (const std::uint32_t block : hits) cache.touch(block);
        std::set<std::uint32_t> used;
        for (std::uint32_t block = 0; block < kBlocks; ++block) {
          if (!cache.resident(block)) continue;
          ASSERT_TRUE(used.insert(cache.slot_of(block)).second) << "two blocks in one slot";
        }
        ASSERT_EQ(used.size(), cache.size());
        ASSERT_LE(cache.size(), kCapacity);
        ASSERT_EQ(cache.free_slots(), kCapacity + kStaging - cache.size());
        if (step % 50 == 49) cache.clear();
      }
    }
  }
}

TEST(NeuronCache, cleared_it_is_as_if_new) {
  NeuronCache cache(10, 4, 2, "lru");
  for (std::uint32_t block = 0; block < 3; ++block) cache.admit(block, cache.take_slot());
  cache.make_hot(0);
  cache.take_slot();  // of a block that never came
  cache.clear();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.hot_size(), 0u);
  EXPECT_FALSE(cache.hot(0));
  EXPECT_EQ(cache.free_slots(), 6u);
  for (std::uint32_t block = 0; block < 4; ++block) EXPECT_TRUE(cache.admit(block, cache.take_slot()).stays);
  EXPECT_FALSE(cache.admit(4, cache.take_slot()).stays) << "those of this step are pinned";
}

TEST(NeuronCache, only_what_is_there_is_pinned) {
  NeuronCache cache(4, 1, 2, "lru");
  EXPECT_FALSE(cache.pin_resident(0));
  EXPECT_TRUE(cache.admit(0, cache.take_slot()).stays);
  cache.unpin_all();
  EXPECT_TRUE(cache.pin_resident(0));
  EXPECT_FALSE(cache.admit(1, cache.take_slot()).stays) << "the only other block is pinned";
}

TEST(NeuronCache, several_are_pinned_and_those_that_are_not_there_as_a_whole_are_told_apart) {
  NeuronCache cache(10, 4, 2, "lru");
  for (const std::uint32_t block : {4u, 5u, 6u, 9u}) cache.admit(block, cache.take_slot());
  const std::vector<std::uint32_t> numbers{0, 2, 3, 5};  // of blocks from 4 on
  std::vector<std::uint32_t> apart(numbers.size());
  for (const bool half : {false, true}) {
    SCOPED_TRACE(half);
    cache.unpin_all();
    cache.set_half(6, half);
    apart.resize(cache.pin_each(numbers, 4, nullptr, apart.data()));
    EXPECT_EQ(apart, half ? (std::vector<std::uint32_t>{1, 2}) : (std::vector<std::uint32_t>{2}));
    apart.resize(numbers.size());
  }
  EXPECT_EQ(cache.admit(7, cache.take_slot()).evicted, 5u) << "all others are pinned";
  EXPECT_FALSE(cache.admit(8, cache.take_slot()).stays) << "and so is the newcomer";
}

// Random sets of random ranges of two FFNs, of which some blocks are there and some of these half.
TEST(NeuronCache, bits_pin_what_a_list_pins) {
  constexpr std::uint32_t kBlocks = 320;
  Rng rng(17);
  NeuronCache by_list(2 * kBlocks, kBlocks / 2, 1, "lru"), by_bits(2 * kBlocks, kBlocks / 2, 1, "lru");
  for (std::uint32_t block = 0; block < 2 * kBlocks; ++block) {
    if (rng.below(3) > 0 || by_list.size() == by_list.capacity()) continue;
    const bool half = rng.below(8) == 0;
    for (NeuronCache* const cache : {&by_list, &by_bits}) {
      cache->admit(block, cache->take_slot());
      cache->set_half(block, half);
    }
  }
  ASSERT_EQ(by_list.size(), by_list.capacity());
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(trial);
    by_list.unpin_all();
    by_bits.unpin_all();
    const auto begin = static_cast<std::uint32_t>(rng.below(kBlocks)), end = begin + static_cast<std::uint32_t>(rng.below(kBlocks - begin));
    std::vector<std::uint64_t> bits(kBlocks / 64);
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t number = 0; number < kBlocks; ++number) {
      if (rng.below(3) > 0) continue;
      if (number >= begin && number < end) numbers.push_back(number);
      if (number < begin || number >= end || !numbers.empty()) bits[number / 64] |= std::uint64_t{1} << number % 64;
    }
    const std::uint32_t first = trial % 2 == 0 ? 0 : kBlocks;
    std::vector<std::uint32_t> apart(numbers.size()), same(numbers.size());
    apart.resize(by_list.pin_each(numbers, first, nullptr, apart.data()));
    same.resize(by_bits.pin_each(numbers, first, &bits, same.data()));
    ASSERT_EQ(same, apart);
    // What is pinned does not go: both give up the same blocks, one for each that comes.
    for (int i = 0; i < 5; ++i) {
      const auto block = static_cast<std::uint32_t>(rng.below(2 * kBlocks));
      if (by_list.resident(block)) continue;
      const NeuronCache::Admission admission = by_list.admit(block, by_list.take_slot());
      const NeuronCache::Admission other = by_bits.admit(block, by_bits.take_slot());
      ASSERT_EQ(other.evicted, admission.evicted);
      ASSERT_EQ(by_bits.resident_blocks(), by_list.resident_blocks());
    }
  }
}

TEST(NeuronCache, bits_that_are_not_the_numbers_are_refused) {
  NeuronCache cache(128, 4, 1, "lru");
  const std::vector<std::uint32_t> numbers{3, 9, 70};
  std::vector<std::uint32_t> apart(numbers.size());
  const std::uint64_t low = std::uint64_t{1} << 3 | std::uint64_t{1} << 9, high = std::uint64_t{1} << 6;
  const std::vector one_more{low, high | 1}, one_less{low & ~std::uint64_t{1 << 9}, high}, too_short{low};
  EXPECT_DEATH(cache.pin_each(numbers, 0, &one_more, apart.data()), "other bits than numbers");
  EXPECT_DEATH(cache.pin_each(numbers, 0, &one_less, apart.data()), "other bits than numbers");
  EXPECT_DEATH(cache.pin_each(numbers, 0, &too_short, apart.data()), "fewer bits than numbers");
  const std::vector right{low | 1, high | high << 1};
  EXPECT_EQ(cache.pin_each(numbers, 0, &right, apart.data()), 3u) << "what lies outside of the numbers does not count";
}

TEST(NeuronCache, a_pin_does_not_come_back) {
  for (const int layers : {1, 2, 254, 255, 256, 257, 510, 511}) {
    SCOPED_TRACE(layers);
    NeuronCache cache(3, 1, 1, "lru");
    cache.admit(0, cache.take_slot());
    for (int i = 0; i < layers; ++i) cache.unpin_all();
    EXPECT_EQ(cache.admit(1, cache.take_slot()).evicted, 0u);
    for (int i = 0; i < layers; ++i) cache.clear();
    cache.admit(2, cache.take_slot());
    cache.unpin_all();
    EXPECT_EQ(cache.admit(1, cache.take_slot()).evicted, 2u) << "what was pinned before it was cleared is not";
  }
}

TEST(NeuronCache, a_half_block_that_goes_leaves_no_half_behind) {
  NeuronCache cache(3, 1, 1, "lru");
  cache.admit(0, cache.take_slot());
  cache.set_half(0, true);
  cache.unpin_all();
  EXPECT_EQ(cache.admit(1, cache.take_slot()).evicted, 0u);
  std::uint32_t apart = 0;
  const std::uint32_t number = 1;
  EXPECT_EQ(cache.pin_each({&number, 1}, 0, nullptr, &apart), 0u);
  EXPECT_FALSE(cache.half(0));
}

}  // namespace
}  // namespace vitro
