#include "engine/parts/ffn/neuron_cluster/unit_lanes.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "engine/machine/task_scope.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

using Steps = std::vector<std::function<void()>>;
using Units = std::vector<std::uint32_t>;

// Lanes that note who was woken, and wait again until the end.
struct Watch {
  VirtualExecutor executor;
  UnitLanes lanes{executor};
  Units woken;
  bool end = false;
};

Task<void> lane(Watch* watch, std::uint32_t unit) {
  for (co_await watch->lanes.wait(unit); !watch->end; co_await watch->lanes.wait(unit)) watch->woken.push_back(unit);
}

// What `steps` does, one after the other, with time in between for those who were woken.
Task<void> play(Watch* watch, std::uint32_t units, std::uint32_t depth, Steps steps) {
  TaskScope scope(watch->executor);
  watch->lanes.begin(units);
  for (std::uint32_t d = 0; d < depth; ++d) {
    for (std::uint32_t unit = 0; unit < units; ++unit) scope.spawn(lane(watch, unit));
  }
  for (const std::function<void()>& step : steps) {
    co_await sleep_until(watch->executor, watch->executor.now() + Picoseconds(10));
    step();
  }
  co_await sleep_until(watch->executor, watch->executor.now() + Picoseconds(10));
  watch->end = true;
  watch->lanes.wake_all();
  co_await scope.join();
}

Units woken(std::uint32_t units, std::uint32_t depth, const std::function<Steps(UnitLanes&)>& steps) {
  Watch watch;
  Task<void> task = play(&watch, units, depth, steps(watch.lanes));
  watch.executor.run(task);
  return watch.woken;
}

TEST(UnitLanes, as_many_are_woken_as_there_are_clusters) {
  EXPECT_EQ(woken(4, 1, [](UnitLanes& lanes) { return Steps{[&] { lanes.wake(2); }}; }), (Units{0, 1}));
  // Whoever was woken has not looked yet.
  EXPECT_EQ(woken(4, 1, [](UnitLanes& lanes) { return Steps{[&] { lanes.wake(1), lanes.wake(1), lanes.wake(2); }}; }), (Units{0, 1}));
  // In the order in which they came to wait.
  EXPECT_EQ(woken(3, 1, [](UnitLanes& lanes) { return Steps{[&] { lanes.wake(1); }, [&] { lanes.wake(2); }}; }), (Units{0, 1, 2}));
}

TEST(UnitLanes, a_unit_without_anything_to_do_comes_first) {
  const auto steps = [](UnitLanes& lanes) {
    const auto first = [&] {
      lanes.call_begins(0);
      EXPECT_FALSE(lanes.in_turn(0));
      EXPECT_TRUE(lanes.in_turn(1));
      lanes.wake(4);  // one lane of unit 1: its second would wait behind the first
    };
    const auto then = [&] {
      lanes.call_begins(1);
      EXPECT_TRUE(lanes.in_turn(0));
      lanes.wake(4);
    };
    return Steps{first, then};
  };
  EXPECT_EQ(woken(2, 2, steps), (Units{1, 0, 0, 1, 1}));
}

// A lane that is not in its turn passes the call on. Were busy units to be woken while an idle one has been called, they would wake each
// other without end.
TEST(UnitLanes, while_an_idle_unit_has_been_called_nobody_else_is) {
  const auto steps = [](UnitLanes& lanes) {
    return Steps{[&] {
      lanes.call_begins(1);
      lanes.call_begins(2);
      for (int i = 0; i < 100; ++i) lanes.wake(100);
    }};
  };
  EXPECT_EQ(woken(3, 2, steps), (Units{0}));
}

// Nobody waits for one that is away, and it takes nothing.
TEST(UnitLanes, a_unit_that_is_away_is_passed_over_until_it_comes_back) {
  const auto steps = [](UnitLanes& lanes) {
    const auto first = [&] {
      lanes.set_away(0, true);
      lanes.call_begins(1);
      EXPECT_FALSE(lanes.in_turn(0));
      EXPECT_TRUE(lanes.in_turn(1)) << "its second call may wait behind the first: all others are busy";
      lanes.wake(1);
    };
    const auto then = [&] {
      lanes.set_away(0, false);
      EXPECT_TRUE(lanes.in_turn(0));
      EXPECT_FALSE(lanes.in_turn(1));
      lanes.wake(1);
    };
    return Steps{first, then};
  };
  EXPECT_EQ(woken(2, 2, steps), (Units{1, 0}));
}

}  // namespace
}  // namespace vitro
