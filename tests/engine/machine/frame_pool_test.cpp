#include "engine/machine/frame_pool.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/machine/task.hpp"

namespace vitro {
namespace {

#ifdef VITRO_PLAIN_FRAMES
TEST(FramePool, is_not_used_where_the_sanitizer_watches) {
  FramePool::give_back(FramePool::take(100), 100);
  EXPECT_EQ(FramePool::kept(100), 0u);
}
#else

// On a thread of its own, whose lines are empty at the beginning.
template <class F>
void apart(F f) {
  std::thread(f).join();
}

TEST(FramePool, the_frame_that_was_given_back_last_is_taken_next) {
  apart([] {
    void* const a = FramePool::take(300);
    void* const b = FramePool::take(300);
    FramePool::give_back(a, 300);
    FramePool::give_back(b, 300);
    EXPECT_EQ(FramePool::kept(300), 2u);
    EXPECT_EQ(FramePool::take(290), b) << "of a size that is as long in whole steps";
    EXPECT_EQ(FramePool::take(300), a);
    EXPECT_EQ(FramePool::kept(300), 0u);
    FramePool::give_back(a, 300);
    FramePool::give_back(b, 290);
  });
}

TEST(FramePool, keeps_a_bounded_number_and_none_that_is_large) {
  apart([] {
    std::vector<void*> frames;
    for (std::size_t i = 0; i < FramePool::kKept + 10; ++i) frames.push_back(FramePool::take(64));
    for (void* frame : frames) FramePool::give_back(frame, 64);
    EXPECT_EQ(FramePool::kept(64), FramePool::kKept);
    FramePool::give_back(FramePool::take(FramePool::kLargest + 1), FramePool::kLargest + 1);
    EXPECT_EQ(FramePool::kept(FramePool::kLargest + 1), 0u);
  });
}

TEST(FramePool, a_container_may_keep_its_items_in_it) {
  apart([] {
    using Numbers = std::vector<int, PooledAllocator<int>>;
    Numbers numbers(75, 7);
    const Numbers copy = numbers;
    EXPECT_EQ(FramePool::kept(300), 0u);
    const int* const place = numbers.data();
    numbers = Numbers();
    EXPECT_EQ(FramePool::kept(300), 1u);
    EXPECT_EQ(Numbers(75).data(), place);
    EXPECT_EQ(copy, Numbers(75, 7));
    EXPECT_THROW(PooledAllocator<int>().allocate(~std::size_t{0} / 2), std::bad_array_new_length);
  });
}

TEST(FramePool, a_frame_may_end_on_another_thread) {
  apart([] {
    void* const frame = FramePool::take(128);
    apart([frame] {
      FramePool::give_back(frame, 128);
      EXPECT_EQ(FramePool::kept(128), 1u);
      EXPECT_EQ(FramePool::take(128), frame);
      FramePool::give_back(frame, 128);
    });
    EXPECT_EQ(FramePool::kept(128), 0u);
  });
}

Task<int> one() { co_return 1; }

TEST(FramePool, tasks_take_their_frames_from_it) {
  apart([] {
    std::size_t before = 0, after = 0;
    { const Task<int> task = one(); }
    for (std::size_t bytes = FramePool::kStep; bytes <= FramePool::kLargest; bytes += FramePool::kStep) before += FramePool::kept(bytes);
    const Task<int> again = one();
    for (std::size_t bytes = FramePool::kStep; bytes <= FramePool::kLargest; bytes += FramePool::kStep) after += FramePool::kept(bytes);
    EXPECT_EQ(before, 1u);
    EXPECT_EQ(after, 0u);
  });
}
#endif

}  // namespace
}  // namespace vitro
