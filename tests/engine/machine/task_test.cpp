#include "engine/machine/task.hpp"

#include <gtest/gtest.h>

#include "engine/machine/task_scope.hpp"
#include "engine/machine/virtual_machine.hpp"

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

}  // namespace
}  // namespace vitro
