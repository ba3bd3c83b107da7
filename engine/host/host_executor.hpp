// The executor of the real machine: resumes coroutines on the thread that called run(), the policy thread.
#pragma once
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "engine/machine/clock.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

// Something whose completions reach the policy thread through the executor's loop: a unit's worker, a storage backend.
class Device {
 public:
  virtual ~Device() = default;
  // True while a completion is still to come. An executor with nothing to do and no busy device would sleep forever.
  virtual bool busy() const = 0;
  // Policy thread, when nothing is ready: hand queued work to the operating system in one batch.
  virtual void flush() {}
  // Policy thread: post what has completed.
  virtual void reap() {}
  // Policy thread, around a sleep: from arm() on, a new completion has to call HostExecutor::wake() or write the
  // executor's descriptor. reap() is called once more after arm().
  virtual void arm() {}
  virtual void disarm() {}
  // Policy thread, when nothing is ready and all is flushed: does a piece of work that is queued for this very thread. False: there
  // was none.
  virtual bool carry_out() { return false; }
};

// The policy thread sleeps on one eventfd: posts from other threads write it, io_uring signals it for completions, and
// timers bound the wait. Time is a monotonic clock in picoseconds since construction.
class HostExecutor final : public Executor, public Clock {
 public:
  HostExecutor();
  ~HostExecutor() override;
  HostExecutor(const HostExecutor&) = delete;
  HostExecutor& operator=(const HostExecutor&) = delete;

  Picoseconds now() const override;
  void post_at(Picoseconds when, std::coroutine_handle<> handle) override;   // any thread
  void post_last(std::coroutine_handle<> handle) override { post(handle); }  // one pass over completions comes before any resumption
  void charge(PolicyWork, std::uint32_t) override {}                         // the work was real
  void wake();                                                               // any thread
  int descriptor() const { return wake_fd_; }

  // Before run() only. The device has to outlive the last run().
  void add(Device& device) { devices_.push_back(&device); }
  // Poll this long before sleeping, unless `neighbour`, the unit on the policy thread's own CPU, has work to do.
  void set_spin(Picoseconds spin, const Device& neighbour) {
    spin_ = spin;
    neighbour_ = &neighbour;
  }

  // Runs until `task` is done and rethrows its error. A task that waits for something that nobody will do is our bug.
  void run(Task<void>& task);

 private:
  struct Event {
    Picoseconds when;
    std::uint64_t sequence;
    std::coroutine_handle<> handle;
    bool operator<(const Event& other) const { return when != other.when ? when > other.when : sequence > other.sequence; }
  };

  void drain_inbox();
  bool resume_one();
  bool carry_out();
  bool spin();
  void sleep();

  std::int64_t start_ns_;
  int wake_fd_;
  std::vector<Device*> devices_;
  Picoseconds spin_{0};
  const Device* neighbour_ = nullptr;
  std::atomic<std::thread::id> policy_thread_{};

  // Of the policy thread.
  std::priority_queue<Event> ready_;
  std::vector<Event> drained_;
  std::uint64_t sequence_ = 0;
  Picoseconds seen_{0};  // a recent now(): reading the clock for every event would cost as much as the event

  std::mutex mutex_;
  std::vector<Event> inbox_;          // guarded by mutex_
  bool asleep_ = false;               // guarded by mutex_
  std::atomic<bool> posted_ = false;  // something is in the inbox: what a spinning policy thread looks at
};

}  // namespace vitro
