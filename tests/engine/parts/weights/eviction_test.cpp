// Long because each rule has its tests, and the rules are compared with one another.
#include "engine/parts/weights/eviction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <set>

#include "engine/base/check.hpp"
#include "engine/base/rng.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_cache.hpp"

namespace vitro {
namespace {

const auto kNoneHeld = [](std::uint32_t) { return false; };

std::unique_ptr<Eviction> eviction_of(std::string_view name, std::uint32_t blocks) { return make_eviction(name, {blocks, blocks}); }

// Runs a policy over accesses, loading on every miss that it gives something up for; returns the hits.
std::uint64_t hits_of(std::string_view name, const std::vector<std::uint32_t>& accesses, std::uint32_t blocks, std::uint32_t capacity) {
  const std::unique_ptr<Eviction> eviction = make_eviction(name, {blocks, capacity});
  std::vector<bool> resident(blocks);
  std::uint32_t size = 0;
  std::uint64_t hits = 0;
  for (const std::uint32_t block : accesses) {
    if (resident[block]) {
      ++hits;
      eviction->touch(block);
      continue;
    }
    if (size == capacity) {
      const std::optional<std::uint32_t> victim = eviction->victim(kNoneHeld);
      if (!victim) continue;
      EXPECT_TRUE(resident[*victim]);
      resident[*victim] = false;
      eviction->erase(*victim);
      --size;
    }
    eviction->insert(block);
    resident[block] = true;
    ++size;
  }
  return hits;
}

std::vector<std::uint32_t> skewed_accesses(std::uint64_t seed, std::uint32_t blocks, std::size_t n) {
  Rng rng(seed);
  std::vector<std::uint32_t> out(n);
  for (std::uint32_t& block : out) {
    const double u = to_unit(rng.next());
    block = static_cast<std::uint32_t>(u * u * u * blocks);
  }
  return out;
}

// The most hits by trying every choice of what stays: only for tiny cases.
std::uint64_t best_hits(const std::vector<std::uint32_t>& accesses, std::size_t at, std::vector<std::uint32_t> held,
                        std::uint32_t capacity) {
  if (at == accesses.size()) return 0;
  const std::uint32_t block = accesses[at];
  if (std::find(held.begin(), held.end(), block) != held.end()) return 1 + best_hits(accesses, at + 1, held, capacity);
  if (held.size() < capacity) {
    held.push_back(block);
    return best_hits(accesses, at + 1, held, capacity);
  }
  std::uint64_t best = best_hits(accesses, at + 1, held, capacity);  // the newcomer goes itself
  for (std::uint32_t& slot : held) {
    const std::uint32_t gone = std::exchange(slot, block);
    best = std::max(best, best_hits(accesses, at + 1, held, capacity));
    slot = gone;
  }
  return best;
}

// Three layers whose steps use blocks 0 to 9, 10 to 19 and 20 to 29, in turn.
std::uint64_t hits_of_steps(std::string_view name, std::uint32_t capacity, int steps, AdmissionRule admission = AdmissionRule::rule) {
  NeuronCache cache(30, capacity, 10, name, 0, 3, admission);
  std::uint64_t hits = 0;
  for (int step = 0; step < steps; ++step) {
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
      for (std::uint32_t block = 10 * layer; block < 10 * layer + 10; ++block) {
        if (cache.resident(block)) cache.pin(block);
      }
      for (std::uint32_t block = 10 * layer; block < 10 * layer + 10; ++block) {
        if (cache.resident(block)) {
          ++hits;
          cache.touch(block);
          continue;
        }
        const std::uint32_t slot = cache.take_slot();
        if (!cache.admit(block, slot).stays) cache.give_back(slot);
      }
      cache.unpin_all();
    }
  }
  return hits;
}

// 29 of 30 blocks fit: least recently used gives each up just before its turn, but for the ten that the layer in work has pinned.
TEST(Eviction, step_lru_keeps_what_it_can_of_a_scan_that_is_larger_than_the_cache) {
  EXPECT_EQ(hits_of_steps("step_lru", 29, 11), 10u * 29);
  EXPECT_EQ(hits_of_steps("step_lru", 15, 11), 10u * 15);
  EXPECT_LT(hits_of_steps("lru", 15, 11), 10u);
  EXPECT_EQ(hits_of_steps("step_lru", 30, 11), hits_of_steps("lru", 30, 11));
}

// By its definition: the oldest, unless it was used since the layer in work last ran.
TEST(Eviction, step_lru_keeps_what_was_used_since_the_layer_in_work_last_ran) {
  constexpr std::uint32_t kBlocks = 50, kLayers = 3;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Rng rng(seed);
    const std::unique_ptr<Eviction> eviction = make_eviction("step_lru", {kBlocks, kBlocks, 0, kLayers});
    std::list<std::uint32_t> order;
    std::vector<int> used(kBlocks, -1);  // in which layer, counted on and on; 0: before the first
    int layer = 0;
    for (int i = 0; i < 20'000; ++i) {
      const auto block = static_cast<std::uint32_t>(rng.next() % kBlocks);
      if (rng.next() % 10 == 0) {
        eviction->next_layer();
        ++layer;
      } else if (used[block] < 0) {
        eviction->insert(block);
        order.push_back(block);
        used[block] = layer;
      } else if (rng.next() % 4 != 0) {
        eviction->touch(block);
        order.remove(block);
        order.push_back(block);
        used[block] = layer;
      } else {
        const std::uint32_t oldest = order.front();
        const bool wanted = layer == 0 || (used[oldest] > 0 && used[oldest] > layer - static_cast<int>(kLayers));
        ASSERT_EQ(eviction->victim(kNoneHeld), wanted ? std::nullopt : std::optional(oldest));
        ASSERT_EQ(eviction->victim_at_any_price(kNoneHeld), oldest);
        eviction->erase(oldest);
        order.pop_front();
        used[oldest] = -1;
      }
    }
  }
}

// "lru" that bypasses is "step_lru", and "step_lru" that admits always is "lru": one random history through all four.
TEST(Eviction, admission_is_apart_from_the_rule) {
  constexpr std::uint32_t kBlocks = 40, kLayers = 3;
  const auto with = [&](std::string_view name, AdmissionRule admission) {
    return make_eviction(name, {kBlocks, kBlocks, 0, kLayers, admission});
  };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::array rules{with("lru", AdmissionRule::bypass), with("step_lru", AdmissionRule::rule),
                           with("step_lru", AdmissionRule::always), with("lru", AdmissionRule::rule)};
    Rng rng(seed);
    std::vector<bool> resident(kBlocks);
    for (int i = 0; i < 5'000; ++i) {
      const auto block = static_cast<std::uint32_t>(rng.next() % kBlocks);
      const std::uint64_t what = rng.next() % 8;
      const auto held = [&](std::uint32_t b) { return b % 7 == seed; };
      if (what == 0) {
        for (const auto& rule : rules) rule->next_layer();
      } else if (!resident[block]) {
        for (const auto& rule : rules) rule->insert(block);
        resident[block] = true;
      } else if (what < 4) {
        for (const auto& rule : rules) rule->touch(block);
      } else if (what < 6) {
        for (const auto& rule : rules) rule->erase(block);
        resident[block] = false;
      }
      ASSERT_EQ(rules[0]->victim(held), rules[1]->victim(held));
      ASSERT_EQ(rules[2]->victim(held), rules[3]->victim(held));
      ASSERT_EQ(rules[0]->victim_at_any_price(held), rules[1]->victim_at_any_price(held));
    }
  }
}

// What a rule hears beside uses comes through an admission: a router's weights.
TEST(Eviction, admission_passes_weights_on) {
  constexpr std::uint32_t kBlocks = 20;
  const auto with = [&](AdmissionRule admission) { return make_eviction("router", {kBlocks, kBlocks, 0, 2, admission}); };
  const std::array rules{with(AdmissionRule::rule), with(AdmissionRule::always), with(AdmissionRule::bypass)};
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    for (const auto& rule : rules) rule->insert(block);
  }
  Rng rng(3);
  std::set<std::uint32_t> victims;
  for (int i = 0; i < 500; ++i) {
    const auto block = static_cast<std::uint32_t>(rng.below(kBlocks));
    const auto weight = static_cast<float>(1 + rng.below(100)) / 100;
    for (const auto& rule : rules) rule->weigh(block, weight);
    const std::optional<std::uint32_t> victim = rules[0]->victim(kNoneHeld);
    victims.insert(victim.value());
    ASSERT_EQ(rules[1]->victim(kNoneHeld), victim);
    ASSERT_EQ(rules[2]->victim_at_any_price(kNoneHeld), rules[0]->victim_at_any_price(kNoneHeld));
  }
  EXPECT_GT(victims.size(), 3u) << "weights decide";
}

// Of a scan that is larger than the cache, every rule keeps a part once it bypasses.
TEST(Eviction, a_rule_that_bypasses_keeps_a_part_of_a_scan) {
  for (const std::string_view name : {"lru", "lfu", "arc"}) {
    EXPECT_EQ(hits_of_steps(name, 15, 11, AdmissionRule::bypass), 10u * 15) << name;
    EXPECT_LT(hits_of_steps(name, 15, 11, AdmissionRule::always), 10u * 15) << name;
  }
}

TEST(Eviction, uses_that_come_together_are_uses_one_by_one) {
  constexpr std::uint32_t kBlocks = 30;
  for (const std::string& name : evictions().names()) {
    Rng rng(7);
    const auto together = eviction_of(name, kBlocks), single = eviction_of(name, kBlocks);
    for (const auto& eviction : {&together, &single}) {
      for (std::uint32_t block = 0; block < kBlocks; ++block) (*eviction)->insert(block);
      (*eviction)->next_layer();
    }
    for (int i = 0; i < 200; ++i) {
      std::vector<std::uint32_t> blocks(rng.next() % 6);
      for (std::uint32_t& block : blocks) block = static_cast<std::uint32_t>(rng.next() % kBlocks);
      together->touch_each(blocks);
      for (const std::uint32_t block : blocks) single->touch(block);
      ASSERT_EQ(together->victim(kNoneHeld), single->victim(kNoneHeld)) << name;
    }
  }
}

TEST(Eviction, step_lru_gives_up_what_its_layer_did_not_use_last_time_unless_the_newcomer_must_stay) {
  NeuronCache cache(8, 2, 4, "step_lru", 0, 2);
  cache.unpin_all();  // loaded
  cache.admit(0, cache.take_slot());
  cache.unpin_all();  // layer 0
  cache.admit(4, cache.take_slot());
  cache.unpin_all();  // layer 1
  EXPECT_EQ(cache.admit(1, cache.take_slot()).evicted, 0u) << "a step ago, in the layer that is in work again";
  const std::uint32_t slot = cache.take_slot();
  EXPECT_FALSE(cache.admit(2, slot).stays) << "4 was used since layer 0 last ran";
  EXPECT_EQ(cache.admit(2, slot, true).evicted, 4u);
}

TEST(Eviction, lru_gives_up_the_least_recently_used_that_is_not_held_back) {
  const auto lru = eviction_of("lru", 4);
  for (const std::uint32_t block : {0u, 1u, 2u, 3u}) lru->insert(block);
  lru->touch(0);
  EXPECT_EQ(lru->victim(kNoneHeld), 1u);
  EXPECT_EQ(lru->victim([](std::uint32_t b) { return b == 1; }), 2u);
  EXPECT_EQ(lru->victim([](std::uint32_t) { return true; }), std::nullopt);
  lru->release();
  lru->erase(1);
  EXPECT_EQ(lru->victim(kNoneHeld), 2u);
}

TEST(Eviction, lfu_counts_uses_and_breaks_ties_by_recency) {
  const auto lfu = eviction_of("lfu", 4);
  for (const std::uint32_t block : {0u, 1u, 2u}) lfu->insert(block);
  lfu->touch(0);
  lfu->touch(0);
  lfu->touch(1);
  EXPECT_EQ(lfu->victim(kNoneHeld), 2u);
  lfu->touch(2);
  EXPECT_EQ(lfu->victim(kNoneHeld), 1u) << "used as often as 2, but longer ago";
}

TEST(Eviction, arc_keeps_what_is_used_again_through_a_scan_and_lru_does_not) {
  std::vector<std::uint32_t> accesses;
  for (std::uint32_t round = 0; round < 50; ++round) {
    for (std::uint32_t hot = 0; hot < 8; ++hot) accesses.insert(accesses.end(), 2, hot);
    for (std::uint32_t i = 0; i < 12; ++i) accesses.push_back(8 + round * 12 + i);
  }
  const std::uint64_t lru = hits_of("lru", accesses, 1000, 16), arc = hits_of("arc", accesses, 1000, 16);
  EXPECT_EQ(lru, 50u * 8) << "only the second of two uses in a row";
  EXPECT_GT(arc, lru + 49 * 8 * 8 / 10) << "nearly all uses of the hot blocks";
}

TEST(Eviction, no_policy_beats_belady_and_all_hit_everything_that_fits) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<std::uint32_t> accesses = skewed_accesses(seed, 200, 3000);
    const std::uint64_t bound = belady_hits(accesses, 40);
    for (const std::string& name : evictions().names()) {
      EXPECT_LE(hits_of(name, accesses, 200, 40), bound) << name << ", seed " << seed;
      EXPECT_EQ(hits_of(name, accesses, 200, 200), belady_hits(accesses, 200)) << name;
    }
  }
}

TEST(Eviction, belady_is_the_best_that_any_choice_of_victims_reaches) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const std::vector<std::uint32_t> accesses = skewed_accesses(seed, 5, 10);
    EXPECT_EQ(belady_hits(accesses, 2), best_hits(accesses, 0, {}, 2)) << "seed " << seed;
  }
  EXPECT_EQ(belady_hits(std::vector<std::uint32_t>{1, 1, 1}, 0), 0u);
}

TEST(Eviction, belady_knows_what_is_resident_at_the_beginning) {
  const std::vector<std::uint32_t> accesses{1, 2, 1, 2}, resident{2, 7};
  EXPECT_EQ(belady_hits(accesses, 2), 2u);
  EXPECT_EQ(belady_hits(accesses, 2, resident), 3u) << "7 goes for 1";
  EXPECT_EQ(belady_hits(accesses, 1, std::vector<std::uint32_t>{2}), 2u) << "1 does not stay";
}

TEST(Eviction, a_window_lets_go_what_was_not_used_in_its_tokens) {
  const auto window = make_eviction("window", {4, 4, 2});
  for (const std::uint32_t block : {0u, 1u, 2u}) window->insert(block);
  EXPECT_TRUE(window->next_token().empty());
  window->touch(1);
  EXPECT_TRUE(window->next_token().empty()) << "two tokens are in the window";
  window->touch(2);
  EXPECT_EQ(window->next_token(), std::vector<std::uint32_t>{0});
  window->erase(0);
  EXPECT_EQ(window->victim(kNoneHeld), 1u) << "without room the oldest goes before its time";
  EXPECT_EQ(window->next_token(), std::vector<std::uint32_t>{1});
}

TEST(Eviction, a_window_between_whole_numbers_keeps_that_share_of_the_blocks_for_a_token_more) {
  constexpr std::uint32_t kBlocks = 10000;
  for (const double length : {0.3, 1.5, 2.9}) {
    const auto window = make_eviction("window", {kBlocks, kBlocks, length});
    for (std::uint32_t block = 0; block < kBlocks; ++block) window->insert(block);
    std::vector<std::size_t> left;  // by token
    for (int token = 0; token < 5; ++token) {
      const std::vector<std::uint32_t> gone = window->next_token();
      for (const std::uint32_t block : gone) window->erase(block);
      left.push_back(gone.size());
    }
    const auto whole = static_cast<std::size_t>(length);
    const double longer = length - static_cast<double>(whole);
    for (std::size_t token = 0; token < left.size(); ++token) {
      const double share = token == whole ? 1 - longer : token == whole + 1 ? longer : 0;
      EXPECT_NEAR(static_cast<double>(left[token]) / kBlocks, share, 0.001) << length << " after token " << token;
    }
  }
}

TEST(Eviction, a_window_without_length_is_least_recently_used) {
  const std::vector<std::uint32_t> accesses = skewed_accesses(3, 60, 2000);
  EXPECT_EQ(hits_of("window", accesses, 60, 15), hits_of("lru", accesses, 60, 15));
  const auto window = make_eviction("window", {4, 4, 0});
  window->insert(3);
  for (int token = 0; token < 100; ++token) EXPECT_TRUE(window->next_token().empty());
}

TEST(Eviction, none_gives_nothing_up) {
  const auto none = eviction_of("none", 4);
  none->insert(1);
  EXPECT_EQ(none->victim(kNoneHeld), std::nullopt);
}

TEST(Eviction, lru_agrees_with_a_list_that_is_searched) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<std::uint32_t> accesses = skewed_accesses(seed, 60, 2000);
    std::list<std::uint32_t> list;
    std::uint64_t hits = 0;
    for (const std::uint32_t block : accesses) {
      const auto found = std::find(list.begin(), list.end(), block);
      if (found != list.end()) {
        ++hits;
        list.erase(found);
      } else if (list.size() == 15) {
        list.pop_back();
      }
      list.push_front(block);
    }
    EXPECT_EQ(hits_of("lru", accesses, 60, 15), hits) << "seed " << seed;
  }
}

TEST(Eviction, an_unknown_name_is_refused_with_the_known_ones) {
  try {
    eviction_of("random", 1);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "eviction: \"random\" is not known (expected one of: lru, step_lru, lfu, arc, window, popularity, "
                               "router, none)");
  }
}

}  // namespace
}  // namespace vitro
