// A thread that carries out jobs in the order in which they were posted.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/host/thread_placement.hpp"
#include "engine/machine/clock.hpp"

namespace vitro {

// The owner's last member: the thread uses the others from the beginning. The destructor finishes what is queued.
template <class Job>
class WorkerThread {
 public:
  // `execute` answers to whoever waits for the job, and throws nothing. `spin`: how long the thread polls for the next job before it
  // sleeps.
  WorkerThread(const Clock& clock, Picoseconds spin, std::function<void(Job)> execute)
      : clock_(clock), spin_(spin), execute_(std::move(execute)), thread_([this] { work(); }) {}
  ~WorkerThread() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
      queued_.fetch_add(1, std::memory_order_relaxed);  // ends the spinning
    }
    available_.notify_one();
    thread_.join();
  }
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  void post(Job job) {
    in_flight_.fetch_add(1, std::memory_order_relaxed);
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(std::move(job));
      queued_.fetch_add(1, std::memory_order_relaxed);
    }
    available_.notify_one();
  }
  // Any thread. False when the answers of all jobs have been given: an idle unit has nothing that the executor has not seen.
  bool busy() const { return in_flight_.load(std::memory_order_acquire) > 0; }
  bool pin(int os_cpu) { return pin_thread(thread_.native_handle(), os_cpu); }

 private:
  void work() {
    become_worker();
    for (Job job; next(job);) {
      execute_(std::move(job));
      in_flight_.fetch_sub(1, std::memory_order_release);
    }
  }
  bool next(Job& job) {
    if (spin_.count() > 0) {
      const Picoseconds until = clock_.now() + spin_;
      while (queued_.load(std::memory_order_relaxed) == 0 && clock_.now() < until) pause_cpu();
    }
    std::unique_lock lock(mutex_);
    available_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return false;
    job = std::move(queue_.front());
    queue_.pop_front();
    queued_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  const Clock& clock_;
  const Picoseconds spin_;
  const std::function<void(Job)> execute_;
  std::atomic<int> in_flight_ = 0, queued_ = 0;  // queued_: what the thread looks at while it spins
  std::mutex mutex_;
  std::condition_variable available_;
  std::deque<Job> queue_;  // guarded by mutex_
  bool stop_ = false;      // guarded by mutex_
  std::thread thread_;     // last: starts when everything above is ready
};

}  // namespace vitro
