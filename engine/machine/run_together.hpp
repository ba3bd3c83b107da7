// RunTogether: a chain or a launch on each of several units, submitted by one coroutine that is resumed once, when the last of them has
// ended.
#pragma once
#include <coroutine>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "engine/machine/frame_pool.hpp"
#include "engine/machine/machine.hpp"

namespace vitro {

// Where nothing happens between a phase's launches and its end, a task for each unit (TaskScope) would cost a start, a frame and a join
// more. In sim, the core that runs the policy begins its own chain after all launches. Operations in flight are never cancelled: it lives
// until end() is over, and their chains with it.
class RunTogether {
 public:
  explicit RunTogether(Machine& machine) : clock_(machine.clock), executor_(machine.executor) {}
  RunTogether(const RunTogether&) = delete;
  RunTogether& operator=(const RunTogether&) = delete;
  ~RunTogether() {
    if (counting_) counting_.destroy();
  }

  // Requires: the unit has no static graphs, and end() has not begun.
  void add(ComputeUnit& unit, Chain chain) { runs_.emplace_back(unit.run(std::move(chain))); }
  // Requires: the unit has loaded the graph, and end() has not begun.
  void add(ComputeUnit& unit, Graph graph, Bindings bindings) { runs_.emplace_back(unit.launch(graph, std::move(bindings))); }

  // `co_await runs.end()`: submits all, in the order of add(), each for the price of a submission, and waits for all of them. Returns how
  // many there are.
  auto end() {
    struct Awaiter {
      RunTogether& together;
      bool await_ready() const { return together.runs_.empty(); }
      bool await_suspend(std::coroutine_handle<> parent) { return together.submit(parent); }
      std::size_t await_resume() const { return together.runs_.size(); }
    };
    return Awaiter{*this};
  }

  // Of the i-th one. Throws the error that ended it. Requires: end() is over, and nobody has taken it.
  RunResult take(std::size_t i) {
    return std::visit([](auto& run) { return run.await_resume(); }, runs_[i]);
  }

 private:
  // Resumed at each end; the last one resumes `parent`.
  struct Countdown {
    struct promise_type : PooledFrame {
      std::coroutine_handle<> parent;
      Executor* executor = nullptr;
      Countdown get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      auto final_suspend() noexcept {
        struct Final {
          bool await_ready() noexcept { return false; }
          void await_suspend(std::coroutine_handle<promise_type> self) noexcept {
            const std::coroutine_handle<> parent = self.promise().parent;
            self.promise().executor->phase_ended();
            parent.resume();  // may destroy this frame: nothing of it may be touched after
          }
          void await_resume() noexcept {}
        };
        return Final{};
      }
      void return_void() {}
      void unhandled_exception() noexcept {}  // nothing in it throws
    };
    std::coroutine_handle<promise_type> handle;
  };
  static Countdown count(std::size_t left) {
    while (--left > 0) co_await std::suspend_always{};
  }

  // False: all chains have ended.
  bool submit(std::coroutine_handle<> parent) {
    counting_ = count(runs_.size()).handle;
    counting_.promise().parent = parent;
    counting_.promise().executor = &executor_;
    for (auto& each : runs_) {
      clock_.charge(PolicyWork::submit, 1);
      std::visit([&](auto& run) { run.await_suspend(counting_); }, each);
    }
    return !executor_.phase_submitted(counting_);
  }

  Clock& clock_;
  Executor& executor_;
  std::vector<std::variant<ComputeUnit::Run, ComputeUnit::Launch>> runs_;
  std::coroutine_handle<Countdown::promise_type> counting_;
};

}  // namespace vitro
