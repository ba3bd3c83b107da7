#include "hw_models/ufs/host_queue.hpp"

#include <gtest/gtest.h>

#include "engine/base/check.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

struct Queue {
  explicit Queue(HostQueue::Spec spec)
      : queue(context, {}, spec, [this](std::uint32_t command) { entered.emplace_back(command, context.now()); }) {}
  TestContext context;
  std::vector<std::pair<std::uint32_t, Picoseconds>> entered;
  HostQueue queue;
};

TEST(HostQueue, never_has_more_commands_than_slots) {
  Queue q({1, 4, Picoseconds(0)});
  for (std::uint32_t i = 0; i < 10; ++i) q.queue.submit(i, 0);
  EXPECT_EQ(q.entered.size(), 4u);
  for (std::uint32_t i = 0; i < 10; ++i) q.queue.complete(0);
  EXPECT_EQ(q.entered.size(), 10u);
  EXPECT_EQ(q.queue.most_in_flight(), 4u);
  EXPECT_EQ(q.queue.in_flight(), 0u);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(q.entered[i].first, i);
}

TEST(HostQueue, a_core_alone_never_waits_for_the_lock) {
  Queue q({1, 8, 5 * kUs});
  for (std::uint32_t i = 0; i < 3; ++i) q.queue.submit(i, 7);
  for (int i = 0; i < 3; ++i) q.queue.complete(7);
  q.queue.submit(3, 2);  // another core, after the first has gone
  EXPECT_EQ(q.entered.size(), 4u);
  EXPECT_EQ(q.entered.back().second, Picoseconds(0));
}

TEST(HostQueue, cores_together_pay_for_each_command_one_after_another) {
  Queue q({1, 8, 5 * kUs});
  for (std::uint32_t i = 0; i < 4; ++i) q.queue.submit(i, static_cast<std::uint16_t>(i % 2));
  q.context.run();
  ASSERT_EQ(q.entered.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(q.entered[i].second, 5 * kUs * i);
}

TEST(HostQueue, cores_with_a_queue_each_do_not) {
  Queue q({2, 1, 5 * kUs});
  q.queue.submit(0, 0);
  q.queue.submit(1, 1);
  EXPECT_EQ(q.entered.size(), 2u);
  EXPECT_EQ(q.queue.in_flight(), 2u);
  q.queue.submit(2, 3);  // shares the second queue, whose slot is taken
  EXPECT_EQ(q.entered.size(), 2u);
}

TEST(HostQueue, commands_that_enter_together_wait_for_slots_together_and_nobody_passes_them) {
  Queue q({1, 4, Picoseconds(0)});
  q.queue.submit(0, 0, 3);
  q.queue.submit(1, 0, 2);
  q.queue.submit(2, 0);
  EXPECT_EQ(q.entered.size(), 1u);
  q.queue.complete(0, 3);
  EXPECT_EQ(q.entered.size(), 3u);
  EXPECT_EQ(q.entered[1].first, 1u);
  EXPECT_EQ(q.queue.in_flight(), 3u);
  q.queue.complete(0, 2);
  q.queue.complete(0);
  EXPECT_EQ(q.queue.in_flight(), 0u);
  EXPECT_DEATH(q.queue.submit(3, 0, 5), "slots together");
}

TEST(HostQueue, ends_only_what_began) {
  Queue q({1, 4, Picoseconds(0)});
  EXPECT_DEATH(q.queue.complete(0), "no slot");
}

}  // namespace
}  // namespace vitro::hw
