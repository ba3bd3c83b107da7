// Signal: coroutines wait for "something changed" and look again.
#pragma once
#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/machine/executor.hpp"

namespace vitro {

// Single-threaded: for coroutines of one executor. A waiter loops: `while (!condition) co_await signal.changed();`
class Signal {
 public:
  explicit Signal(Executor& executor) : executor_(executor) {}

  struct Changed {
    Signal& signal;
    std::uint32_t tag;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { signal.waiters_.push_back({handle, tag}); }
    void await_resume() const {}
  };
  // tag: for whoever chooses among those that wait.
  Changed changed(std::uint32_t tag = 0) { return {*this, tag}; }

  // Everyone who waits now runs when the executor next comes round, in the order in which they came; or the first `most`, where
  // more would find nothing to do.
  void notify(std::size_t most = ~std::size_t{0}) {
    const auto end = waiters_.begin() + static_cast<std::ptrdiff_t>(std::min(most, waiters_.size()));
    for (auto waiter = waiters_.begin(); waiter != end; ++waiter) executor_.post(waiter->handle);
    waiters_.erase(waiters_.begin(), end);
  }

  // The first one whose tag fits, which is the result.
  template <class Fits>
  std::optional<std::uint32_t> notify_first(Fits fits) {
    const auto waiter = std::find_if(waiters_.begin(), waiters_.end(), [&](const Waiter& w) { return fits(w.tag); });
    if (waiter == waiters_.end()) return std::nullopt;
    const std::uint32_t tag = waiter->tag;
    executor_.post(waiter->handle);
    waiters_.erase(waiter);
    return tag;
  }

 private:
  struct Waiter {
    std::coroutine_handle<> handle;
    std::uint32_t tag;
  };
  Executor& executor_;
  std::vector<Waiter> waiters_;
};

}  // namespace vitro
