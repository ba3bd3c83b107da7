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

// What a finished operation gives to whoever awaited it.
template <class R>
R take(Completion<R>& completion) {
  return std::move(*completion.result);
}

// `co_await device.operation(request)`: submits on suspension and holds the request until the result is there.
template <class Device, class Request, class R>
struct [[nodiscard]] Operation {
  Device& device;
  Request request;
  Completion<R> completion;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    completion.waiter = handle;
    completion.executor = &device.executor();
    device.submit(request, completion);
  }
  R await_resume() { return take(completion); }
};

}  // namespace vitro
