// Signal: coroutines wait for "something changed" and look again.
#pragma once
#include <algorithm>
#include <coroutine>
#include <cstddef>
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

  // Everyone who waits now runs when the executor next comes round, in the order in which they came; or the first `most`, where
  // more would find nothing to do.
  void notify(std::size_t most = ~std::size_t{0}) {
    const auto end = waiters_.begin() + static_cast<std::ptrdiff_t>(std::min(most, waiters_.size()));
    for (auto waiter = waiters_.begin(); waiter != end; ++waiter) executor_.post(*waiter);
    waiters_.erase(waiters_.begin(), end);
  }

 private:
  Executor& executor_;
  std::vector<std::coroutine_handle<>> waiters_;
};

}  // namespace vitro
