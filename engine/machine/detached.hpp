// A coroutine that starts at once and that nobody awaits: what a decorator does for one operation until it completes it.
#pragma once
#include <coroutine>
#include <exception>

#include "engine/machine/frame_pool.hpp"

namespace vitro {

// Starts at once, so that what is behind a decorator sees operations in the policy's order. Whoever makes one completes the operation
// that it stands for, whatever happens: an exception that leaves it ends the process.
struct Detached {
  struct promise_type : PooledFrame {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

}  // namespace vitro
