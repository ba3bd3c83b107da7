#include "engine/parts/weights/page_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

TEST(PageCache, evicts_the_least_recently_used_page) {
  PageCache cache(8, 2);
  EXPECT_EQ(cache.insert(0), PageCache::kNone);
  EXPECT_EQ(cache.insert(1), PageCache::kNone);
  cache.touch(0);
  EXPECT_EQ(cache.insert(2), 1u);
  EXPECT_TRUE(cache.contains(0));
  EXPECT_FALSE(cache.contains(1));
}

TEST(PageCache, a_loop_one_page_larger_than_the_cache_never_hits) {
  PageCache cache(5, 4);
  int hits = 0;
  for (std::uint32_t i = 0; i < 50; ++i) {
    if (cache.contains(i % 5))
      ++hits;
    else
      cache.insert(i % 5);
  }
  EXPECT_EQ(hits, 0);
}

TEST(PageCache, agrees_with_a_plain_list_on_random_accesses) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Rng rng(seed);
    const auto capacity = static_cast<std::uint32_t>(1 + rng.below(20));
    PageCache cache(64, capacity);
    std::list<std::uint32_t> model;  // most recent first
    for (int i = 0; i < 2000; ++i) {
      const auto page = static_cast<std::uint32_t>(rng.below(64));
      const auto found = std::find(model.begin(), model.end(), page);
      ASSERT_EQ(cache.contains(page), found != model.end());
      if (found != model.end()) {
        model.erase(found);
        cache.touch(page);
      } else {
        std::uint32_t victim = PageCache::kNone;
        if (model.size() == capacity) {
          victim = model.back();
          model.pop_back();
        }
        ASSERT_EQ(cache.insert(page), victim);
      }
      model.push_front(page);
      ASSERT_EQ(cache.size(), model.size());
    }
  }
}

}  // namespace
}  // namespace vitro
