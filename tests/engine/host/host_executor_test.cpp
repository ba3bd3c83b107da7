#include "engine/host/host_executor.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "engine/machine/task_scope.hpp"

namespace vitro {
namespace {

// Threads that post handles, as a device whose completions are still to come.
class Posters final : public Device {
 public:
  explicit Posters(HostExecutor& executor) : executor_(executor) { executor.add(*this); }
  ~Posters() override {
    for (std::thread& thread : threads_) thread.join();
  }
  bool busy() const override { return open_.load(std::memory_order_acquire) > 0; }

  struct FromThread {
    Posters& posters;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const {
      posters.open_.fetch_add(1);
      posters.threads_.emplace_back([this_ = &posters, handle] {
        this_->executor_.post(handle);
        this_->open_.fetch_sub(1, std::memory_order_release);
      });
    }
    void await_resume() const {}
  };
  FromThread hop() { return {*this}; }

 private:
  HostExecutor& executor_;
  std::atomic<int> open_ = 0;
  std::vector<std::thread> threads_;
};

Task<void> hop_many(Posters* posters, std::thread::id home, int n, int* done) {
  for (int i = 0; i < n; ++i) {
    co_await posters->hop();
    EXPECT_EQ(std::this_thread::get_id(), home);
    ++*done;
  }
}

Task<void> hop_side_by_side(HostExecutor* executor, Posters* posters, int* done) {
  TaskScope scope(*executor);
  for (int i = 0; i < 8; ++i) scope.spawn(hop_many(posters, std::this_thread::get_id(), 25, done));
  co_await scope.join();
}

TEST(HostExecutor, resumes_on_the_policy_thread_whoever_posts) {
  HostExecutor executor;
  Posters posters(executor);
  int done = 0;
  Task<void> task = hop_side_by_side(&executor, &posters, &done);
  executor.run(task);
  EXPECT_EQ(done, 200);
}

Task<void> sleep_then_note(HostExecutor* executor, Picoseconds when, std::vector<Picoseconds>* woken) {
  co_await sleep_until(*executor, when);
  EXPECT_GE(executor->now(), when);
  woken->push_back(when);
}

Task<void> sleep_in_reverse(HostExecutor* executor, std::vector<Picoseconds>* woken) {
  TaskScope scope(*executor);
  const Picoseconds start = executor->now();
  for (int ms = 5; ms > 0; --ms) scope.spawn(sleep_then_note(executor, start + from_seconds(ms * 1e-3), woken));
  co_await scope.join();
}

TEST(HostExecutor, timers_fire_in_order_of_time_and_never_early) {
  HostExecutor executor;
  std::vector<Picoseconds> woken;
  Task<void> task = sleep_in_reverse(&executor, &woken);
  executor.run(task);
  ASSERT_EQ(woken.size(), 5u);
  EXPECT_TRUE(std::is_sorted(woken.begin(), woken.end()));
}

Task<void> note(std::vector<int>* order, int id) {
  order->push_back(id);
  co_return;
}

Task<void> spawn_in_order(HostExecutor* executor, std::vector<int>* order) {
  TaskScope scope(*executor);
  for (int i = 0; i < 100; ++i) scope.spawn(note(order, i));
  co_await scope.join();
}

TEST(HostExecutor, ready_tasks_start_in_the_order_they_were_spawned) {
  HostExecutor executor;
  std::vector<int> order;
  Task<void> task = spawn_in_order(&executor, &order);
  executor.run(task);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

Task<void> fail(HostExecutor* executor) {
  co_await sleep_until(*executor, executor->now() + Picoseconds(1000));
  throw RunError("as it should");
}

TEST(HostExecutor, run_rethrows_the_error_of_its_task) {
  HostExecutor executor;
  Task<void> task = fail(&executor);
  EXPECT_THROW(executor.run(task), RunError);
}

TEST(HostExecutorDeathTest, a_wait_for_nothing_is_named_instead_of_sleeping_forever) {
  const auto wait_for_nothing = []() -> Task<void> { co_await std::suspend_always{}; };
  EXPECT_DEATH(
      {
        HostExecutor executor;
        Task<void> task = wait_for_nothing();
        executor.run(task);
      },
      "the task can never finish");
}

}  // namespace
}  // namespace vitro
