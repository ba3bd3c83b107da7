#include "engine/parts/weights/page_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kWindow = 32;

std::vector<std::uint32_t> range(std::uint32_t first, std::uint32_t end) {
  std::vector<std::uint32_t> pages(end - first);
  std::iota(pages.begin(), pages.end(), first);
  return pages;
}

PagePlan plan_of(std::uint32_t pages, std::uint32_t capacity, std::uint32_t window = kWindow) {
  PagePlan plan(std::vector<bool>(pages, true), window, capacity);
  plan.begin_phase();
  return plan;
}

std::vector<PageStep> touch(PagePlan& plan, std::vector<std::uint32_t> pages) {
  std::optional<std::vector<PageStep>> steps = plan.touch(pages);
  EXPECT_TRUE(steps);
  return steps.value_or(std::vector<PageStep>{});
}

void land_all(PagePlan& plan, const std::vector<PageStep>& steps) {
  for (const PageStep& step : steps) plan.read(step.read).state = PageRead::State::landed;
}

std::vector<std::uint32_t> sorted(std::vector<std::uint32_t> pages) {
  std::ranges::sort(pages);
  return pages;
}

TEST(PagePlan, a_page_that_is_not_there_brings_the_window_around_it) {
  PagePlan plan = plan_of(200, 200);
  const std::vector<PageStep> steps = touch(plan, {100});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_TRUE(steps[0].issues);
  EXPECT_FALSE(plan.read(steps[0].read).ahead);
  EXPECT_EQ(sorted(plan.read(steps[0].read).load), range(84, 116));
  EXPECT_EQ(plan.misses(), 1u);
}

TEST(PagePlan, at_the_ends_of_the_file_there_is_less_of_a_window) {
  PagePlan plan = plan_of(50, 50);
  EXPECT_EQ(sorted(plan.read(touch(plan, {3})[0].read).load), range(0, 32));
  EXPECT_EQ(sorted(plan.read(touch(plan, {49})[0].read).load), range(33, 50));
}

TEST(PagePlan, who_touches_the_mark_has_the_next_window_read_and_does_not_wait_for_it) {
  PagePlan plan = plan_of(200, 200);
  land_all(plan, touch(plan, range(0, 24)));
  const std::vector<PageStep> at_mark = touch(plan, {24});
  ASSERT_EQ(at_mark.size(), 1u);
  EXPECT_TRUE(at_mark[0].issues && plan.read(at_mark[0].read).ahead);
  EXPECT_EQ(plan.read(at_mark[0].read).load, range(32, 64));
  EXPECT_THAT(touch(plan, range(25, 32)), IsEmpty());
  // The first page of what was read ahead is marked in turn: the window behind it is asked for before this one has come.
  const std::vector<PageStep> next = touch(plan, range(32, 64));
  ASSERT_EQ(next.size(), 2u);
  EXPECT_TRUE(next[0].issues);
  EXPECT_EQ(plan.read(next[0].read).load, range(64, 96));
  EXPECT_FALSE(next[1].issues);
  EXPECT_EQ(next[1].read, at_mark[0].read);
  EXPECT_EQ(plan.misses(), 1u);
}

TEST(PagePlan, an_item_waits_for_what_it_reads_ahead_and_needs) {
  PagePlan plan = plan_of(200, 200);
  const std::vector<PageStep> steps = touch(plan, range(0, 40));
  ASSERT_EQ(steps.size(), 4u);  // around, ahead of 32 at the mark, ahead of 64 at the next, and the wait for the former
  EXPECT_TRUE(steps[1].issues && steps[2].issues);
  EXPECT_EQ(plan.read(steps[2].read).load, range(64, 96));
  EXPECT_FALSE(steps[3].issues);
  EXPECT_EQ(steps[3].read, steps[1].read);
}

TEST(PagePlan, small_windows_are_not_read_ahead) {
  PagePlan plan = plan_of(64, 64, 2);
  const std::vector<PageStep> steps = touch(plan, range(0, 16));
  for (const PageStep& step : steps) EXPECT_FALSE(plan.read(step.read).ahead);
}

TEST(PagePlan, read_ahead_leaves_out_pages_that_are_not_mapped) {
  std::vector<bool> mapped(64, true);
  for (std::uint32_t page = 34; page < 60; ++page) mapped[page] = false;
  PagePlan plan(mapped, kWindow, 64);
  plan.begin_phase();
  const std::vector<PageStep> steps = touch(plan, range(0, 25));
  EXPECT_THAT(plan.read(steps.back().read).load, ElementsAre(32, 33, 60, 61, 62, 63));
}

TEST(PagePlan, a_loop_that_is_longer_than_the_room_reads_all_of_it_again) {
  PagePlan plan = plan_of(256, 200);
  for (int loop = 0; loop < 4; ++loop) {
    std::size_t loads = 0;
    for (std::uint32_t page = 0; page < 256; ++page) {
      const std::vector<PageStep> steps = touch(plan, {page});
      for (const PageStep& step : steps) loads += step.issues ? plan.read(step.read).load.size() : 0;
      land_all(plan, steps);
    }
    EXPECT_NEAR(static_cast<double>(loads), 256, 33) << "loop " << loop;
  }
  EXPECT_LT(plan.misses(), 12u) << "nearly all is there before it is touched";
}

TEST(PagePlan, an_item_without_room_for_its_pages_is_refused) {
  PagePlan plan = plan_of(64, 8);
  EXPECT_TRUE(plan.touch(range(10, 18)));
  EXPECT_FALSE(plan.touch(range(20, 29)));
}

// Rows of two units end and begin on one page: whoever brings another in its place waits for both.
TEST(PagePlan, a_read_waits_for_all_items_that_compute_with_what_it_gives_up) {
  PagePlan plan = plan_of(64, 8, 1);
  touch(plan, {0});
  touch(plan, {0});
  touch(plan, range(10, 17));
  const PageRead& read = plan.read(touch(plan, {30}).at(0).read);
  EXPECT_THAT(read.evict, ElementsAre(0));
  EXPECT_THAT(read.after_items, testing::UnorderedElementsAre(0, 1));
}

TEST(PagePlan, nothing_is_resident_after_all_was_forgotten) {
  PagePlan plan = plan_of(64, 64);
  const std::vector<PageStep> steps = touch(plan, range(0, 33));
  plan.read(steps[1].read).state = PageRead::State::begun;
  const PagePlan::Forgotten gone = plan.forget();
  EXPECT_EQ(gone.pages, range(0, 64));
  EXPECT_EQ(gone.reads, 1u);
  EXPECT_TRUE(plan.read(steps[1].read).forgotten);
  EXPECT_EQ(plan.misses(), 1u);
  touch(plan, {0});
  EXPECT_EQ(plan.misses(), 2u);
}

// Whatever is touched, decisions in their order keep every page that an item computes with, within the room, and each waits for what it
// depends on.
TEST(PagePlan, random_touches_keep_what_items_compute_with) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const auto room = static_cast<std::uint32_t>(12 + rng.below(100));
    PagePlan plan(std::vector<bool>(128, true), static_cast<std::uint32_t>(1 + rng.below(40)), room);
    std::set<std::uint32_t> resident;
    std::vector<std::uint32_t> changed(128);
    for (int phase = 0; phase < 20; ++phase) {
      plan.begin_phase();
      std::vector<PageStep> in_flight;
      for (std::uint32_t item = 0; item < 10; ++item) {
        const auto first = static_cast<std::uint32_t>(rng.below(120));
        const std::vector<std::uint32_t> pages = range(first, first + 1 + static_cast<std::uint32_t>(rng.below(8)));
        const std::vector<PageStep> steps = touch(plan, pages);
        for (const PageStep& step : steps) {
          if (!step.issues) continue;
          const PageRead& read = plan.read(step.read);
          const auto depends = [&](std::uint32_t page, const std::vector<std::uint32_t>& earlier) {
            return plan.landed(changed[page]) || changed[page] == step.read || std::ranges::count(earlier, changed[page]) > 0;
          };
          for (const std::uint32_t page : read.evict) {
            EXPECT_EQ(resident.erase(page), 1u);
            EXPECT_TRUE(depends(page, read.after_reads));
            changed[page] = step.read;
          }
          for (const std::uint32_t page : read.load) {
            EXPECT_TRUE(resident.insert(page).second);
            EXPECT_TRUE(depends(page, read.after_evictions));
            changed[page] = step.read;
          }
          EXPECT_LE(resident.size(), room);
          for (const std::uint32_t earlier : read.after_items) EXPECT_LT(earlier, item);
          for (const std::uint32_t earlier : read.after_reads) EXPECT_LT(earlier, step.read);
        }
        for (const std::uint32_t page : pages) {
          EXPECT_TRUE(resident.contains(page));
          const bool there = plan.landed(changed[page]) || std::ranges::any_of(steps, [&](const PageStep& step) {
                               return step.read == changed[page] && !(step.issues && plan.read(step.read).ahead);
                             });
          EXPECT_TRUE(there) << "page " << page << " of seed " << seed;
        }
        in_flight.insert(in_flight.end(), steps.begin(), steps.end());
        if (rng.below(3) == 0) land_all(plan, std::exchange(in_flight, {}));
      }
      land_all(plan, in_flight);
    }
  }
}

// Evictions and reads that have what they wait for come in any order: what is there stays within the room, and nobody waits for a read of
// another unit that only would make room.
TEST(PagePlan, reads_in_any_order_that_they_allow_stay_within_the_room) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const auto room = static_cast<std::uint32_t>(12 + rng.below(100));
    PagePlan plan(std::vector<bool>(256, true), static_cast<std::uint32_t>(1 + rng.below(40)), room);
    std::set<std::uint32_t> there;
    for (int phase = 0; phase < 10; ++phase) {
      plan.begin_phase();
      std::vector<std::uint32_t> waiting;
      for (int item = 0; item < 10; ++item) {
        const auto first = static_cast<std::uint32_t>(rng.below(248));
        for (const PageStep& step : touch(plan, range(first, first + 1 + static_cast<std::uint32_t>(rng.below(8))))) {
          if (step.issues) waiting.push_back(step.read);
        }
      }
      const auto may_evict = [&](std::uint32_t number) {
        return plan.evicted(number) || std::ranges::all_of(plan.read(number).after_reads, [&](std::uint32_t n) { return plan.landed(n); });
      };
      const auto evict = [&](std::uint32_t number) {
        if (plan.evicted(number)) return;
        PageRead& read = plan.read(number);
        for (const std::uint32_t page : read.evict) ASSERT_EQ(there.erase(page), 1u) << "page " << page << " of seed " << seed;
        read.evicted = true;
      };
      while (!waiting.empty()) {
        std::vector<std::uint32_t> may_run;
        std::ranges::copy_if(waiting, std::back_inserter(may_run), [&](std::uint32_t number) {
          return may_evict(number) && std::ranges::all_of(plan.read(number).after_evictions, may_evict);
        });
        ASSERT_FALSE(may_run.empty()) << "reads wait for each other, seed " << seed;
        const std::uint32_t number = may_run[rng.below(may_run.size())];
        PageRead& read = plan.read(number);
        std::ranges::for_each(read.after_evictions, evict);
        evict(number);
        for (const std::uint32_t page : read.load) ASSERT_TRUE(there.insert(page).second) << "page " << page << " of seed " << seed;
        read.state = PageRead::State::landed;
        std::erase(waiting, number);
        ASSERT_LE(there.size(), room) << "seed " << seed;
      }
    }
  }
}

// Two units: the first is late with the read that gives up 32 pages, and the second takes some of their room.
TEST(PagePlan, room_that_a_late_read_makes_is_there_without_it) {
  PagePlan plan = plan_of(1024, 256, 1);
  for (std::uint32_t page = 0; page < 256; ++page) land_all(plan, touch(plan, {page}));
  plan.begin_phase();
  const std::uint32_t late = touch(plan, {300}).at(0).read, next = touch(plan, {400}).at(0).read;
  EXPECT_EQ(plan.read(late).evict, range(0, 32));
  EXPECT_THAT(plan.read(next).evict, IsEmpty());
  EXPECT_THAT(plan.read(next).after_evictions, ElementsAre(late));
  EXPECT_THAT(plan.read(next).after_reads, IsEmpty());
  plan.read(late).evicted = true;
  EXPECT_TRUE(plan.evicted(late) && !plan.landed(late));
  EXPECT_THAT(plan.read(touch(plan, {500}).at(0).read).after_evictions, IsEmpty());
}

}  // namespace
}  // namespace vitro
