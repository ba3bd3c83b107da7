// TaskScope: runs tasks side by side and joins every one of them.
#pragma once
#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "engine/machine/executor.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

// Operations in flight are never cancelled: buffers that a device writes to must outlive them. So a scope has to be
// joined before it dies, unless the executor abandoned the run; between the first spawn() and `co_await join()` the owner must not throw.
// The first error wins, asks the others to stop, and is rethrown by join() after all have ended.
class TaskScope {
 public:
  explicit TaskScope(Executor& executor) : executor_(executor) {}
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  ~TaskScope() { VITRO_CHECK(live_ == 0 || executor_.abandoned(), "a TaskScope died before its tasks were joined"); }

  // The task starts when the executor next comes round, in spawn order.
  void spawn(Task<void> task) {
    ++live_;
    executor_.post(drive(this, std::move(task)).handle);
  }

  // Loops inside the tasks look at this between operations and return early.
  bool stop_requested() const { return stop_; }
  void request_stop() { stop_ = true; }

  // Waits until no task is left, and throws the first error of one. Afterwards the scope is as good as new.
  auto join() {
    struct Awaiter {
      TaskScope& scope;
      bool await_ready() const { return scope.live_ == 0; }
      void await_suspend(std::coroutine_handle<> parent) { scope.waiter_ = parent; }
      void await_resume() const {
        scope.stop_ = false;
        if (scope.error_) std::rethrow_exception(std::exchange(scope.error_, {}));
      }
    };
    return Awaiter{*this};
  }

 private:
  struct Detached {
    struct promise_type : PooledFrame {
      Detached get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<> handle;
  };

  static Detached drive(TaskScope* scope, Task<void> task) {
    try {
      co_await std::move(task);
    } catch (...) {
      scope->stop_ = true;
      if (!scope->error_) scope->error_ = std::current_exception();
    }
    if (--scope->live_ == 0 && scope->waiter_) scope->executor_.post(std::exchange(scope->waiter_, {}));
  }

  Executor& executor_;
  std::size_t live_ = 0;
  bool stop_ = false;
  std::coroutine_handle<> waiter_;
  std::exception_ptr error_;
};

}  // namespace vitro
