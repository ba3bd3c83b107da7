// Signal: coroutines wait for "something changed" and look again.
#pragma once
#include <coroutine>
#include <utility>
#include <vector>

#include "engine/machine/executor.hpp"

namespace vitro {

// Single-threaded: for coroutines of one executor. A waiter loops: `while (!condition) co_await signal.changed();`
class Signal {
 public:
  explicit Signal(Executor& executor) : executor_(executor) {}

  struct Changed {
    Signal& signal;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { signal.waiters_.push_back(handle); }
    void await_resume() const {}
  };
  Changed changed() { return {*this}; }

  // Everyone who waits now runs when the executor next comes round, in the order in which they came.
  void notify() {
    for (const std::coroutine_handle<> waiter : std::exchange(waiters_, {})) executor_.post(waiter);
  }

 private:
  Executor& executor_;
  std::vector<std::coroutine_handle<>> waiters_;
};

}  // namespace vitro
