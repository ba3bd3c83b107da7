// The result slot of an operation in flight. It lives in the awaiting coroutine's frame.
#pragma once
#include <coroutine>
#include <optional>
#include <utility>

#include "engine/machine/executor.hpp"

namespace vitro {

template <class R>
struct Completion {
  Executor* executor = nullptr;
  std::coroutine_handle<> waiter;
  std::optional<R> result;

  // Only posts: a device callback never resumes policy code inside itself. Called once, from any thread on host.
  // After the post the frame may be gone: the caller must not touch *this.
  void complete(R value) {
    result.emplace(std::move(value));
    executor->post(waiter);
  }
};

}  // namespace vitro
