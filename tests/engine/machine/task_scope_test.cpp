#include "engine/machine/task_scope.hpp"

#include <gtest/gtest.h>

#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

Task<void> sleep_for(VirtualExecutor* executor, Picoseconds time) { co_await sleep_until(*executor, executor->now() + time); }

Task<void> tick(VirtualExecutor* executor, TaskScope* scope, Picoseconds period, int* ticks) {
  while (!scope->stop_requested()) {
    co_await sleep_for(executor, period);
    ++*ticks;
  }
}

Task<void> stop_after(VirtualExecutor* executor, Picoseconds time, int* fast, int* slow) {
  TaskScope scope(*executor);
  scope.spawn(tick(executor, &scope, Picoseconds(10), fast));
  scope.spawn(tick(executor, &scope, Picoseconds(1000), slow));
  co_await sleep_for(executor, time);
  scope.request_stop();
  co_await scope.join();
}

TEST(TaskScope, a_stop_request_ends_loops_after_the_operation_in_flight) {
  VirtualExecutor executor;
  int fast = 0, slow = 0;
  Task<void> task = stop_after(&executor, Picoseconds(105), &fast, &slow);
  executor.run(task);
  EXPECT_EQ(fast, 11);  // the eleventh sleep, from 100 to 110, was in flight at 105
  EXPECT_EQ(slow, 1);
  EXPECT_EQ(executor.now(), Picoseconds(1000));
}

Task<void> fail_at(VirtualExecutor* executor, Picoseconds time, std::string message) {
  co_await sleep_for(executor, time);
  throw RunError(message);
}

Task<void> finish_at(VirtualExecutor* executor, Picoseconds time, bool* done) {
  co_await sleep_for(executor, time);
  *done = true;
}

Task<void> look_at(VirtualExecutor* executor, Picoseconds time, const TaskScope* scope, bool* stopped) {
  co_await sleep_for(executor, time);
  *stopped = scope->stop_requested();
}

Task<void> three_of_which_two_fail(VirtualExecutor* executor, bool* done, bool* stopped, std::string* message) {
  TaskScope scope(*executor);
  scope.spawn(look_at(executor, Picoseconds(25), &scope, stopped));
  scope.spawn(fail_at(executor, Picoseconds(30), "second"));
  scope.spawn(fail_at(executor, Picoseconds(20), "first"));
  scope.spawn(finish_at(executor, Picoseconds(50), done));
  try {
    co_await scope.join();
  } catch (const RunError& error) {
    *message = error.what();
  }
  EXPECT_FALSE(scope.stop_requested()) << "what is spawned next must not stop for an error that has been reported";
  co_await scope.join();
}

TEST(TaskScope, the_first_error_wins_and_the_others_are_joined_first) {
  VirtualExecutor executor;
  bool done = false, stopped = false;
  std::string message;
  Task<void> task = three_of_which_two_fail(&executor, &done, &stopped, &message);
  executor.run(task);
  EXPECT_EQ(message, "first");
  EXPECT_TRUE(done);
  EXPECT_TRUE(stopped);
}

// Notes when it is destroyed, as a lease in a coroutine frame would.
struct Witness {
  std::vector<std::string>* log;
  std::string name;
  Witness(std::vector<std::string>* l, std::string n) : log(l), name(std::move(n)) {}
  Witness(const Witness&) = delete;
  ~Witness() { log->push_back(name); }
};

Task<void> hold(VirtualExecutor* executor, std::vector<std::string>* log, std::string name, Picoseconds time) {
  const Witness inner(log, name + ".inner");
  const Witness outer(log, name + ".outer");
  co_await sleep_for(executor, time);
}

Task<void> hold_in_scope(VirtualExecutor* executor, std::vector<std::string>* log) {
  const Witness owner(log, "owner");
  TaskScope scope(*executor);
  scope.spawn(hold(executor, log, "late", Picoseconds(20)));
  scope.spawn(hold(executor, log, "early", Picoseconds(10)));
  co_await scope.join();
  log->push_back("joined");
}

TEST(TaskScope, frames_die_when_their_task_ends_and_before_the_join_returns) {
  VirtualExecutor executor;
  std::vector<std::string> log;
  {
    Task<void> task = hold_in_scope(&executor, &log);
    executor.run(task);
  }
  EXPECT_EQ(log, (std::vector<std::string>{"early.outer", "early.inner", "late.outer", "late.inner", "joined", "owner"}));
}

Task<void> join_nothing(VirtualExecutor* executor, bool* done) {
  TaskScope scope(*executor);
  co_await scope.join();
  scope.spawn(sleep_for(executor, Picoseconds(5)));
  co_await scope.join();
  scope.spawn(sleep_for(executor, Picoseconds(5)));
  co_await scope.join();
  *done = executor->now() == Picoseconds(10);
}

TEST(TaskScope, an_empty_join_does_not_wait_and_a_scope_may_be_used_again) {
  VirtualExecutor executor;
  bool done = false;
  Task<void> task = join_nothing(&executor, &done);
  executor.run(task);
  EXPECT_TRUE(done);
}

Task<void> drop_a_scope(VirtualExecutor* executor) {
  TaskScope scope(*executor);
  scope.spawn(sleep_for(executor, Picoseconds(5)));
  co_return;
}

TEST(TaskScopeDeathTest, a_scope_that_is_dropped_before_its_tasks_ended_is_our_bug) {
  EXPECT_DEATH(
      {
        VirtualExecutor executor;
        Task<void> task = drop_a_scope(&executor);
        executor.run(task);
      },
      "died before its tasks were joined");
}

}  // namespace
}  // namespace vitro
