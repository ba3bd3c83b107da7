#include "sim/executor.hpp"

#include <fmt/format.h>

#include <utility>

#include "engine/base/check.hpp"
#include "sim/phase_record.hpp"
#include "sim/phase_repeater.hpp"

namespace vitro::sim {
namespace {

constexpr std::size_t kHeld = 64;  // coroutines that may wait for the policy's core before there has to be more room

constexpr hw::Label kResume{0, 0}, kDrain{0, 1}, kResult{0, 2};

sc_core::sc_time to_sc(Picoseconds t) { return sc_core::sc_time::from_value(static_cast<sc_dt::uint64>(t.count())); }

// While it lives, what a module reports as fatal is thrown: it would end the process without a word.
class FatalThrows {
 public:
  FatalThrows() : before_(sc_core::sc_report_handler::set_actions(sc_core::SC_FATAL, sc_core::SC_DISPLAY | sc_core::SC_THROW)) {}
  ~FatalThrows() { sc_core::sc_report_handler::set_actions(sc_core::SC_FATAL, before_); }
  FatalThrows(const FatalThrows&) = delete;
  FatalThrows& operator=(const FatalThrows&) = delete;

 private:
  sc_core::sc_actions before_;
};

// Goes on until nobody has anything to do, somebody stops the kernel, or done() after a pause: modules of others may pause, too.
template <class Done>
void run_kernel(Done done) {
  if (sc_core::sc_get_status() == sc_core::SC_STOPPED) throw RunError("a SystemC module had called sc_stop() before this run began");
  const FatalThrows fatal_throws;
  const auto failed = [] { return fmt::format("a SystemC module failed at {}: ", sc_core::sc_time_stamp().to_string()); };
  try {
    do {
      sc_core::sc_start();
    } while (!done() && sc_core::sc_get_status() == sc_core::SC_PAUSED && sc_core::sc_pending_activity());
  } catch (const sc_core::sc_report& report) {
    const char* const process = report.get_process_name();
    throw RunError(fmt::format("{}{}: {}{}", failed(), report.get_msg_type(), report.get_msg(),
                               process != nullptr ? fmt::format(" (in {})", process) : ""));
  } catch (const std::exception& error) {  // from outside of a process, such as start_of_simulation()
    throw RunError(failed() + error.what());
  }
}

}  // namespace

SimExecutor::SimExecutor(std::optional<std::uint64_t> shuffle, const sc_core::sc_module_name& name)
    : sc_module(name), queue_(shuffle), held_(kHeld) {
  VITRO_CHECK(sc_core::sc_get_time_resolution() == sc_core::sc_time(1, sc_core::SC_PS), "one SystemC tick has to be one picosecond");
  SC_HAS_PROCESS(SimExecutor);
  SC_METHOD(step);
  sensitive << wake_;
}

Picoseconds SimExecutor::kernel_time() { return Picoseconds(static_cast<std::int64_t>(sc_core::sc_time_stamp().value())); }

// An earlier notification replaces a later one, so this is right in either order.
inline void SimExecutor::wake_at(Picoseconds when) {
  if (!stepping_ && sc_core::sc_is_running()) wake_.notify(to_sc(when - kernel_time()));
}

inline void SimExecutor::push(Picoseconds when, hw::Label label, std::coroutine_handle<> handle) {
  Event& event = queue_.add(when);
  event.label = label;
  event.handle = handle;
  wake_at(when);
}

void SimExecutor::at(Picoseconds when, hw::Label label, hw::Callback action) {
  VITRO_CHECK(when >= device_now(), "a device asked for an event in the past");
  Event& event = queue_.add(when);
  event.label = label;
  event.handle = {};
  event.action = action;
  wake_at(when);
}

void SimExecutor::post_at(Picoseconds when, std::coroutine_handle<> handle) {
  ++posts_;
  push(std::max(when, device_now()), kResume, handle);
}

void SimExecutor::post_last(std::coroutine_handle<> handle) {
  ++posts_;
  const Picoseconds when = now();
  queue_.push_last({when, kResume, handle, {}});
  wake_at(when);
}

void SimExecutor::post_result(Picoseconds when, std::coroutine_handle<> handle) {
  ++posts_;
  push(std::max(when, device_now()), take_in_ ? kResult : kResume, handle);
}

inline void SimExecutor::resume(const Event& event) {
  const std::coroutine_handle<> handle = event.handle;
  if (event.label.kind == kResult.kind) take_in_();
  handle.resume();
}

inline void SimExecutor::execute(const Event& event) {
  note(event.label);
  if (record_ != nullptr) [[unlikely]]
    record_->steps.emplace_back(PhaseRecord::Event{time_ - record_->begin, event.label});
  if (!event.handle) {
    hw::Callback action = event.action;  // it may add events, one of them in this one's place
    return action();
  }
  if (policy_free_ <= time_ && held_.empty()) return resume(event);
  // Kept aside in order: back in the heap, every waiting coroutine would come round at each charge.
  if (held_.full()) [[unlikely]]
    held_.set_capacity(2 * held_.capacity());
  held_.push_back(event);
  drain();
}

void SimExecutor::drain() {
  while (!held_.empty() && !task_->done()) {
    if (policy_free_ > time_) {
      if (!std::exchange(drain_posted_, true)) {
        const auto resume_held = [this] {
          drain_posted_ = false;
          drain();
        };
        queue_.push({policy_free_, kDrain, {}, resume_held});
      }
      return;
    }
    const Event event = held_.front();
    held_.pop_front();
    resume(event);
  }
}

bool SimExecutor::phase_submitted(std::coroutine_handle<> waiter) { return repeater_ != nullptr && repeater_->submitted(waiter); }

void SimExecutor::phase_ended() {
  if (repeater_ != nullptr) repeater_->ended();
}

void SimExecutor::step() {
  if (task_ == nullptr) return;
  time_ = kernel_time();
  stepping_ = true;
  try {
    while (!queue_.empty() && (alone_ || queue_.next() <= time_) && !task_->done()) {
      const Event& event = queue_.pop();
      time_ = std::max(time_, event.when);
      execute(event);
    }
  } catch (...) {
    // sc_start() would lose the type of an exception: it is carried around it.
    error_ = std::current_exception();
  }
  stepping_ = false;
  const Picoseconds ahead = time_ - kernel_time();
  if (error_ == nullptr && ahead.count() > 0) {
    wake_.notify(to_sc(ahead));
  } else if (error_ || task_->done()) {
    sc_core::sc_pause();
  } else if (!queue_.empty()) {
    wake_.notify(to_sc(queue_.next() - time_));
  }
}

void SimExecutor::run(Task<void>& task) {
  try {
    run_to_end(task);
  } catch (...) {
    abandon();
    throw;
  }
  task.result();
}

void SimExecutor::run_to_end(Task<void>& task) {
  task_ = &task;
  // Every process and module is an object, and those of this module are its children.
  alone_ = sc_core::sc_get_top_level_objects().size() == 1;
  post_at(now(), task.handle());
  wake_.notify(sc_core::SC_ZERO_TIME);
  run_kernel([this] { return error_ != nullptr || task_->done(); });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!task.done() && sc_core::sc_get_status() == sc_core::SC_STOPPED) {
    throw RunError(fmt::format("a SystemC module called sc_stop() at {}, before the run was done", sc_core::sc_time_stamp().to_string()));
  }
  if (!task.done())
    throw RunError("the simulation has no more events, but its task is not done: it waits for something that never completes");
}

}  // namespace vitro::sim
