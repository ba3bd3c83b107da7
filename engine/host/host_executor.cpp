#include "engine/host/host_executor.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "engine/host/thread_placement.hpp"

namespace vitro {
namespace {

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

HostExecutor::HostExecutor() : start_ns_(monotonic_ns()), wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_fd_ < 0) throw RunError(std::string("the kernel gave no eventfd: ") + std::strerror(errno));
}

HostExecutor::~HostExecutor() { ::close(wake_fd_); }

Picoseconds HostExecutor::now() const { return Picoseconds((monotonic_ns() - start_ns_) * 1000); }

void HostExecutor::post_at(Picoseconds when, std::coroutine_handle<> handle) {
  if (std::this_thread::get_id() == policy_thread_.load(std::memory_order_relaxed)) {
    ready_.push({when, sequence_++, handle});
    return;
  }
  bool asleep = false;
  {
    const std::scoped_lock lock(mutex_);
    inbox_.push_back({when, 0, handle});
    posted_.store(true, std::memory_order_relaxed);
    asleep = std::exchange(asleep_, false);
  }
  if (asleep) wake();
}

void HostExecutor::wake() {
  const std::uint64_t one = 1;
  // Can only fail with EAGAIN, when the counter is full: then a wake-up is pending anyway.
  [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof one);
}

void HostExecutor::drain_inbox() {
  {
    const std::scoped_lock lock(mutex_);
    drained_.swap(inbox_);
    posted_.store(false, std::memory_order_relaxed);
  }
  for (Event& event : drained_) {
    event.sequence = sequence_++;
    ready_.push(event);
  }
  drained_.clear();
}

bool HostExecutor::resume_one() {
  if (ready_.empty()) return false;
  if (ready_.top().when > seen_ && ready_.top().when > (seen_ = now())) return false;
  const std::coroutine_handle<> handle = ready_.top().handle;
  ready_.pop();
  handle.resume();
  return true;
}

bool HostExecutor::carry_out() {
  return std::any_of(devices_.begin(), devices_.end(), [](Device* device) { return device->carry_out(); });
}

// True when something arrived meanwhile.
bool HostExecutor::spin() {
  if (spin_.count() == 0 || neighbour_->busy()) return false;
  const std::size_t before = ready_.size();
  for (const Picoseconds until = now() + spin_; now() < until;) {
    if (posted_.load(std::memory_order_relaxed)) return true;
    for (Device* device : devices_) device->reap();
    if (ready_.size() != before || (before > 0 && ready_.top().when <= now())) return true;
    pause_cpu();
  }
  return false;
}

void HostExecutor::sleep() {
  // Asked before the inbox is looked at: a device posts first and is idle after, so an idle device has nothing unseen.
  const bool expecting = std::any_of(devices_.begin(), devices_.end(), [](const Device* device) { return device->busy(); });
  {
    const std::scoped_lock lock(mutex_);
    if (!inbox_.empty()) return;
    asleep_ = true;
  }
  VITRO_CHECK(expecting || !ready_.empty(), "the task can never finish: nothing is in flight that it could wait for");
  const std::size_t before = ready_.size();
  for (Device* device : devices_) {
    device->arm();
    device->reap();
  }
  if (ready_.size() == before) {
    timespec timeout{};
    if (!ready_.empty()) {
      const std::int64_t wait_ns = std::max<std::int64_t>(0, (ready_.top().when - now()).count() / 1000 + 1);
      timeout = {static_cast<time_t>(wait_ns / 1'000'000'000), static_cast<long>(wait_ns % 1'000'000'000)};
    }
    pollfd descriptor{wake_fd_, POLLIN, 0};
    // EINTR needs no care: the caller looks at everything again.
    ::ppoll(&descriptor, 1, ready_.empty() ? nullptr : &timeout, nullptr);
  }
  for (Device* device : devices_) device->disarm();
  {
    const std::scoped_lock lock(mutex_);
    asleep_ = false;
  }
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_fd_, &count, sizeof count);
}

void HostExecutor::run(Task<void>& task) {
  struct Running {
    std::atomic<std::thread::id>& slot;
    ~Running() { slot = std::thread::id{}; }
  } running{policy_thread_};
  policy_thread_ = std::this_thread::get_id();
  post(task.handle());
  while (!task.done()) {
    drain_inbox();
    for (Device* device : devices_) device->reap();
    if (resume_one()) continue;
    for (Device* device : devices_) device->flush();
    if (!carry_out() && !spin()) sleep();
  }
  task.result();
}

}  // namespace vitro
