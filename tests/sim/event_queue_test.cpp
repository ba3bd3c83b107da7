#include "sim/event_queue.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace vitro::sim {
namespace {

using Due = std::pair<std::int64_t, std::uint16_t>;  // when, and which event

Event event(std::int64_t when, std::uint16_t number) { return {Picoseconds(when), {0, number}, {}, {}}; }

// Against an ordered set: with few events and with many times more than the line holds, among them many of equal times.
TEST(EventQueue, gives_out_events_by_time_and_then_by_arrival) {
  for (const std::size_t depth : {1u, 5u, 200u, 256u, 257u, 3000u}) {
    for (const std::uint64_t spread : {1u, 40u, 1'000'000u}) {
      Rng rng(depth + spread);
      EventQueue queue(std::nullopt);
      std::set<std::tuple<std::int64_t, int, std::uint16_t>> plain;  // when, arrival, which
      std::int64_t now = 0;
      for (int i = 0; i < 20'000; ++i) {
        const bool grows = rng.next() % (2 * depth) >= plain.size();
        if (grows || plain.empty()) {
          const auto when = now + static_cast<std::int64_t>(rng.next() % spread);
          const auto number = static_cast<std::uint16_t>(i);
          queue.push(event(when, number));
          plain.insert({when, i, number});
        } else {
          const auto [when, arrival, number] = *plain.begin();
          plain.erase(plain.begin());
          ASSERT_EQ(queue.next().count(), when);
          const Event next = queue.pop();
          ASSERT_EQ(Due(next.when.count(), next.label.kind), Due(when, number)) << "depth " << depth << ", spread " << spread;
          now = when;
        }
        ASSERT_EQ(queue.empty(), plain.empty());
      }
    }
  }
}

TEST(EventQueue, what_comes_last_leaves_behind_all_of_its_time) {
  for (const std::optional<std::uint64_t> shuffle : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(3)}) {
    EventQueue queue(shuffle);
    queue.push(event(1, 5));
    for (std::uint16_t i = 0; i < 300; ++i) {
      if (i == 10) queue.push_last(event(0, 1000));
      if (i == 20) queue.push_last(event(0, 1001));
      queue.push(event(0, i));
    }
    for (int i = 0; i < 300; ++i) EXPECT_LT(queue.pop().label.kind, 300);
    queue.push(event(0, 7));  // still before them
    EXPECT_EQ(queue.pop().label.kind, 7);
    std::set<std::uint16_t> last{queue.pop().label.kind, queue.pop().label.kind};
    EXPECT_EQ(last, (std::set<std::uint16_t>{1000, 1001}));
    EXPECT_EQ(queue.pop().label.kind, 5) << "of the next time";
  }
}

TEST(EventQueue, shuffles_equal_times_alone) {
  const auto order = [](std::optional<std::uint64_t> shuffle) {
    EventQueue queue(shuffle);
    for (std::uint16_t i = 0; i < 1000; ++i) queue.push(event(i / 500, i));
    std::vector<std::uint16_t> numbers;
    while (!queue.empty()) numbers.push_back(queue.pop().label.kind);
    return numbers;
  };
  const auto plain = order({}), shuffled = order(1);
  EXPECT_TRUE(std::ranges::is_sorted(plain));
  EXPECT_EQ(shuffled, order(1));
  EXPECT_NE(shuffled, order(2));
  EXPECT_NE(shuffled, plain);
  EXPECT_LT(*std::max_element(shuffled.begin(), shuffled.begin() + 500), 500);  // those of time 0
}

}  // namespace
}  // namespace vitro::sim
