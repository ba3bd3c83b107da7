// Task<T>: a lazy coroutine that one parent awaits.
//
// Stack depth follows the nesting of calls, never the number of awaits: a child that finishes without suspending does
// not suspend its parent either (await_suspend returns false), and one that suspends is resumed from the executor.
// Symmetric transfer would do the same, but g++ 12 turns it into real recursion at -O0, -O1 and under ASan.
//
// Rules for code that awaits, each learned from a crash:
//  - Name an aggregate argument and move it in; g++ 12 destroys the temporary of `co_await f({...})` twice.
//  - No capturing lambda as a coroutine (the closure dies first), no reference parameter that the caller may outlive.
//  - Never drop a Task whose operation is in flight: spawn it in a TaskScope, which joins.
#pragma once
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/machine/frame_pool.hpp"

namespace vitro {

template <class T>
class Task;

namespace detail {

struct PromiseBase : PooledFrame {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  std::exception_ptr error;
  bool starting = false, finished_inline = false;

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> handle) noexcept {
      PromiseBase& promise = handle.promise();
      if (promise.starting) {
        promise.finished_inline = true;
        return;
      }
      const std::coroutine_handle<> parent = promise.continuation;
      parent.resume();  // may destroy this frame: nothing of it may be touched after
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    if (error) std::rethrow_exception(error);
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() {
    if (error) std::rethrow_exception(error);
  }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && noexcept {
    struct Awaiter {
      std::coroutine_handle<promise_type> child;
      bool await_ready() noexcept { return child.done(); }
      bool await_suspend(std::coroutine_handle<> parent) noexcept {
        promise_type& promise = child.promise();
        promise.continuation = parent;
        promise.starting = true;
        child.resume();
        promise.starting = false;
        return !promise.finished_inline;
      }
      T await_resume() { return child.promise().take(); }
    };
    return Awaiter{handle_};
  }

  // For whoever drives a top-level task: post handle(), run the executor, then take the result.
  std::coroutine_handle<> handle() const { return handle_; }
  bool done() const { return handle_.done(); }
  T result() {
    VITRO_CHECK(handle_.done(), "the task has not finished: something it awaits never completed");
    return handle_.promise().take();
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace vitro
