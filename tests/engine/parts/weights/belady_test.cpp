// Belady's rule as an eviction reaches the bound, and says where the future was another one.
#include "engine/parts/weights/belady.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

bool nothing_held(std::uint32_t) { return false; }

AccessLog drawn_steps(std::uint64_t seed, std::uint32_t blocks, std::size_t steps, std::uint32_t most) {
  Rng rng(seed);
  AccessLog out(steps);
  for (std::vector<std::uint32_t>& step : out) {
    for (std::uint32_t i = 0; i < most; ++i) step.push_back(static_cast<std::uint32_t>(std::min(rng.below(blocks), rng.below(blocks))));
    std::ranges::sort(step);
    step.erase(std::ranges::unique(step).begin(), step.end());
  }
  return out;
}

// As NeuronCache does: what is there is touched, then the others come; a layer's own blocks are held.
std::uint64_t hits_of_steps_by(Eviction& rule, const AccessLog& steps, std::uint32_t capacity) {
  std::vector<std::uint32_t> there;
  std::uint64_t hits = 0;
  for (const std::vector<std::uint32_t>& step : steps) {
    std::vector<std::uint32_t> missing, held;
    for (const std::uint32_t block : step) {
      if (std::ranges::find(there, block) == there.end()) {
        missing.push_back(block);
      } else {
        rule.touch(block);
        held.push_back(block);
        ++hits;
      }
    }
    for (const std::uint32_t block : missing) {
      if (there.size() == capacity) {
        rule.newcomer(block);
        const auto gone = rule.victim([&](std::uint32_t b) { return std::ranges::find(held, b) != held.end(); });
        if (!gone) continue;
        rule.erase(*gone);
        std::erase(there, *gone);
      }
      rule.insert(block);
      there.push_back(block);
      held.push_back(block);
    }
    rule.next_layer();
    rule.release();
  }
  return hits;
}

AccessLog log_of_steps(const AccessLog& steps, std::uint32_t blocks, std::uint32_t capacity) {
  AccessLog log;
  {
    const auto rule = logged(make_eviction("lru", {blocks, capacity}), [&](AccessLog found) { log = std::move(found); });
    hits_of_steps_by(*rule, steps, capacity);
  }
  return log;
}

// By every choice of what stays after a step, of what was there and what it used: only for tiny cases.
std::uint64_t best_of_steps(const AccessLog& steps, std::size_t at, const std::vector<std::uint32_t>& there, std::uint32_t capacity) {
  if (at == steps.size()) return 0;
  std::vector<std::uint32_t> candidates = there;
  std::uint64_t hits = 0, best = 0;
  for (const std::uint32_t block : steps[at]) {
    if (std::ranges::find(there, block) == there.end()) {
      candidates.push_back(block);
    } else {
      ++hits;
    }
  }
  for (std::uint32_t chosen = 0; chosen < 1u << candidates.size(); ++chosen) {
    if (static_cast<std::uint32_t>(__builtin_popcount(chosen)) > capacity) continue;
    std::vector<std::uint32_t> stay;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if ((chosen >> i & 1) != 0) stay.push_back(candidates[i]);
    }
    best = std::max(best, best_of_steps(steps, at + 1, stay, capacity));
  }
  return hits + best;
}

TEST(Belady, reaches_what_the_best_choice_of_all_reaches) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const AccessLog steps = drawn_steps(seed, 5, 6, 1);  // a block a step: nothing is held
    const auto foresight = std::make_shared<Foresight>();
    const auto rule = belady(log_of_steps(steps, 5, 2), {5, 2}, foresight);
    EXPECT_EQ(hits_of_steps_by(*rule, steps, 2), best_of_steps(steps, 0, {}, 2)) << "seed " << seed;
    EXPECT_EQ(foresight->unforeseen, 0u);
    EXPECT_EQ(foresight->accesses, steps.size());
  }
}

// Newcomers are chosen one by one, and what a layer uses stays until its end: choosing for all of a layer together may be better.
TEST(Belady, is_no_bound_where_a_layer_uses_several_blocks) {
  const AccessLog steps{{0, 2}, {0, 1}, {1, 2}, {0, 1}, {4}, {0}};
  const auto rule = belady(log_of_steps(steps, 5, 2), {5, 2}, std::make_shared<Foresight>());
  EXPECT_EQ(hits_of_steps_by(*rule, steps, 2), 4u);
  EXPECT_EQ(best_of_steps(steps, 0, {}, 2), 5u);
}

TEST(Belady, of_layers_with_several_blocks_is_between_the_other_rules_and_the_best_choice) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    const AccessLog steps = drawn_steps(seed, 5, 4, 2);
    const auto rule = belady(log_of_steps(steps, 5, 3), {5, 3}, std::make_shared<Foresight>());
    const std::uint64_t hits = hits_of_steps_by(*rule, steps, 3);
    EXPECT_LE(hits, best_of_steps(steps, 0, {}, 3)) << "seed " << seed;
  }
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const AccessLog steps = drawn_steps(seed, 120, 200, 10);
    const auto rule = belady(log_of_steps(steps, 120, 40), {120, 40}, std::make_shared<Foresight>());
    const std::uint64_t bound = hits_of_steps_by(*rule, steps, 40);
    for (const char* name : {"lru", "step_lru", "lfu", "arc"}) {
      const auto other = make_eviction(name, {120, 40, 0, 4});
      EXPECT_LT(hits_of_steps_by(*other, steps, 40), bound) << name << ", seed " << seed;
    }
  }
}

TEST(Belady, the_log_is_the_same_whatever_the_cache_holds) {
  const AccessLog steps = drawn_steps(3, 60, 50, 8);
  AccessLog expected = steps;
  expected.emplace_back();  // what came after the last layer
  EXPECT_EQ(log_of_steps(steps, 60, 10), expected);
  EXPECT_EQ(log_of_steps(steps, 60, 60), expected);
}

TEST(Belady, counts_what_its_future_does_not_have) {
  const auto foresight = std::make_shared<Foresight>();
  const auto rule = belady({{0, 1}, {2}}, {4, 2}, foresight);
  rule->insert(0);
  rule->insert(3);
  rule->next_layer();
  rule->newcomer(2);
  EXPECT_EQ(rule->victim(nothing_held), std::nullopt) << "nothing of it comes again";
  EXPECT_EQ(rule->victim_at_any_price(nothing_held), 3u);
  EXPECT_EQ(foresight->accesses, 3u);
  EXPECT_EQ(foresight->unforeseen, 2u) << "3 came, and 1 did not";
}

TEST(Belady, what_did_not_come_is_waited_for_no_longer) {
  const auto foresight = std::make_shared<Foresight>();
  const auto rule = belady({{0, 1}, {0}, {1, 2}, {1}}, {3, 2}, foresight);
  rule->insert(0);
  rule->insert(1);
  rule->next_layer();
  rule->next_layer();  // 0 was to come
  EXPECT_EQ(foresight->unforeseen, 1u);
  rule->touch(1);
  rule->newcomer(2);
  EXPECT_EQ(rule->victim_at_any_price(nothing_held), 0u) << "it never comes again, and 1 does";
}

TEST(Belady, what_is_held_does_not_go) {
  const auto rule = belady({{0, 1}, {2}, {1}, {2}}, {3, 2}, std::make_shared<Foresight>());
  rule->insert(0);
  rule->insert(1);
  rule->next_layer();
  rule->newcomer(2);
  EXPECT_EQ(rule->victim([](std::uint32_t block) { return block == 0; }), std::nullopt) << "1 comes before 2 does again";
  rule->release();
  EXPECT_EQ(rule->victim(nothing_held), 0u);
}

}  // namespace
}  // namespace vitro
