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

TEST(IndexListPool, a_pool_that_has_grown_still_begins_with_the_list_that_was_taken_longest_ago) {
  IndexListPool pool;
  std::vector<IndexListPool::List> held;
  for (int i = 0; i < 2; ++i) held.push_back(pool.take());
  held.erase(held.begin());
  for (int i = 0; i < 2; ++i) held.push_back(pool.take());  // the first one again, and a new one since the second is held
  std::vector<const std::vector<std::uint32_t>*> taken, again;
  for (const IndexListPool::List& list : held) taken.push_back(list.get());
  held.clear();
  for (int i = 0; i < 3; ++i) again.push_back(pool.take().get());
  EXPECT_EQ(again, taken);
}

TEST(IndexListPool, beyond_its_bound_lists_are_still_made) {
  IndexListPool pool;
  std::vector<IndexListPool::List> held;
  for (std::size_t i = 0; i < 3 * IndexListPool::kKept; ++i) {
    held.push_back(pool.take());
    ASSERT_EQ(held.back().use_count(), 2);  // the pool and this
  }
  EXPECT_EQ(pool.kept(), IndexListPool::kKept);
  // It holds the last ones. The others are their holders' alone, who free them.
  for (std::size_t i = 0; i < held.size(); ++i) ASSERT_EQ(held[i].use_count(), i < 2 * IndexListPool::kKept ? 1 : 2);
}

TEST(IndexListPool, a_list_that_is_held_for_good_does_not_keep_others_from_being_taken_again) {
  IndexListPool pool;
  const IndexListPool::List held = pool.take();
  for (std::size_t i = 0; i < IndexListPool::kKept; ++i) pool.take();
  EXPECT_EQ(held.use_count(), 1);  // its place has become another's
  const std::vector<std::uint32_t>* const list = pool.take().get();
  for (std::size_t i = 1; i < IndexListPool::kKept; ++i) pool.take();
  EXPECT_EQ(pool.take().get(), list);
}

TEST(IndexListPool, the_memory_of_large_lists_is_given_back_and_that_of_others_kept) {
  IndexListPool pool;
  pool.take()->resize(IndexListPool::kLargest);
  EXPECT_EQ(pool.take()->capacity(), IndexListPool::kLargest);
  pool.take()->resize(2 * IndexListPool::kLargest);
  EXPECT_EQ(pool.take()->capacity(), 0u);
  EXPECT_EQ(pool.kept(), 1u);
}

}  // namespace
}  // namespace vitro
