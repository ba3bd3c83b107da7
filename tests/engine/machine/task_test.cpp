#include "engine/machine/task.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "engine/machine/task_scope.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

Task<int> ready(int value) { co_return value; }

Task<void> await_many(std::int64_t n, std::int64_t* sum) {
  for (std::int64_t i = 0; i < n; ++i) *sum += co_await ready(1);
}

TEST(Task, two_million_ready_awaits_do_not_grow_the_stack) {
  VirtualExecutor executor;
  std::int64_t sum = 0;
  Task<void> task = await_many(2'000'000, &sum);
  executor.run(task);
  EXPECT_EQ(sum, 2'000'000);
}

Task<int> after(VirtualExecutor* executor, Picoseconds time, int value) {
  co_await sleep_until(*executor, executor->now() + time);
  co_return value;
}

Task<void> await_many_suspended(VirtualExecutor* executor, std::int64_t n, std::int64_t* sum) {
  for (std::int64_t i = 0; i < n; ++i) *sum += co_await after(executor, Picoseconds(1), 1);
}

TEST(Task, nor_do_awaits_that_suspend) {
  VirtualExecutor executor;
  std::int64_t sum = 0;
  Task<void> task = await_many_suspended(&executor, 200'000, &sum);
  executor.run(task);
  EXPECT_EQ(sum, 200'000);
  EXPECT_EQ(executor.now(), Picoseconds(200'000));
}

Task<int> throws_at_once() {
  throw RunError("inner");
  co_return 1;
}

Task<int> throws_later(VirtualExecutor* executor) {
  co_await after(executor, Picoseconds(3), 0);
  throw RunError("later");
}

Task<void> collect_errors(VirtualExecutor* executor, std::vector<std::string>* messages) {
  try {
    co_await throws_at_once();
  } catch (const RunError& error) {
    messages->push_back(error.what());
  }
  try {
    co_await throws_later(executor);
  } catch (const RunError& error) {
    messages->push_back(error.what());
  }
}

TEST(Task, an_exception_reaches_the_awaiting_coroutine_with_its_type) {
  VirtualExecutor executor;
  std::vector<std::string> messages;
  Task<void> task = collect_errors(&executor, &messages);
  executor.run(task);
  EXPECT_EQ(messages, (std::vector<std::string>{"inner", "later"}));
}

TEST(Task, the_error_of_a_top_level_task_is_rethrown_by_run) {
  VirtualExecutor executor;
  const auto top = [](VirtualExecutor* e) -> Task<void> { co_await throws_later(e); };
  Task<void> task = top(&executor);
  EXPECT_THROW(executor.run(task), RunError);
}

Task<std::unique_ptr<int>> box(int value) { co_return std::make_unique<int>(value); }

Task<void> unbox(int* out) {
  const std::unique_ptr<int> boxed = co_await box(7);
  *out = *boxed;
}

TEST(Task, results_are_moved_not_copied) {
  VirtualExecutor executor;
  int value = 0;
  Task<void> task = unbox(&value);
  executor.run(task);
  EXPECT_EQ(value, 7);
}

TEST(Task, a_task_that_never_ran_frees_its_arguments) {
  const auto value = std::make_shared<int>(1);
  const auto keep = [](std::shared_ptr<int>) -> Task<void> { co_return; };
  {
    const Task<void> task = keep(value);
    EXPECT_EQ(value.use_count(), 2);
  }
  EXPECT_EQ(value.use_count(), 1);
}

Task<int> nested(VirtualExecutor* executor, int depth) {
  if (depth == 0) co_return co_await after(executor, Picoseconds(1), 0);
  co_return 1 + co_await nested(executor, depth - 1);
}

Task<void> nest(VirtualExecutor* executor, int depth, int* out) { *out = co_await nested(executor, depth); }

TEST(Task, nesting_is_bounded_by_the_stack_alone) {
  VirtualExecutor executor;
  int out = 0;
  Task<void> task = nest(&executor, 500, &out);
  executor.run(task);
  EXPECT_EQ(out, 500);
}

TEST(TaskDeathTest, a_task_that_can_not_finish_is_our_bug) {
  const auto forever = []() -> Task<void> { co_await std::suspend_always{}; };
  EXPECT_DEATH(
      {
        VirtualExecutor executor;
        Task<void> task = forever();
        executor.run(task);
      },
      "has not finished");
}

}  // namespace
}  // namespace vitro
