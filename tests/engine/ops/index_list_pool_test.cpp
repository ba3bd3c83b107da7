#include "engine/ops/index_list_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

// Random lives of random lists: what somebody holds is what he wrote, whatever others took, wrote and dropped meanwhile.
TEST(IndexListPool, a_list_that_is_held_is_never_given_to_another) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    IndexListPool pool;
    std::map<std::uint32_t, IndexListPool::List> held;
    const std::uint64_t most = 1 + rng.below(2 * IndexListPool::kKept);
    for (std::uint32_t mark = 0; mark < 20'000; ++mark) {
      const IndexListPool::List list = pool.take();
      ASSERT_LE(list.use_count(), 2);  // the pool and this
      list->assign(rng.below(4), mark);
      held[mark] = list;
      while (held.size() > rng.below(most)) {
        // Mostly the oldest.
        auto ends = held.begin();
        const auto behind = static_cast<std::ptrdiff_t>(rng.below(std::min<std::size_t>(held.size(), 8)));
        if (rng.below(4) == 0) ends = std::next(ends, behind);
        ASSERT_TRUE(std::ranges::all_of(*ends->second, [&](std::uint32_t each) { return each == ends->first; })) << seed;
        held.erase(ends);
      }
    }
    EXPECT_LE(pool.kept(), IndexListPool::kKept);
  }
}

TEST(IndexListPool, lists_that_were_dropped_are_taken_again) {
  IndexListPool pool;
  std::vector<IndexListPool::List> held;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 10; ++i) held.push_back(pool.take());
    held.clear();
  }
  EXPECT_EQ(pool.kept(), 10u);
}

TEST(IndexListPool, beyond_its_bound_lists_are_still_made) {
  IndexListPool pool;
  std::vector<IndexListPool::List> held;
  for (std::size_t i = 0; i < 3 * IndexListPool::kKept; ++i) {
    held.push_back(pool.take());
    ASSERT_EQ(held.back().use_count(), i < IndexListPool::kKept ? 2 : 1);
  }
  EXPECT_EQ(pool.kept(), IndexListPool::kKept);
}

}  // namespace
}  // namespace vitro
