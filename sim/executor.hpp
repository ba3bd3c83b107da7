// SimExecutor: the one process of a simulation. Coroutines and device events share one queue.
#pragma once
#include <boost/circular_buffer.hpp>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <systemc>

#include "engine/base/hash.hpp"
#include "engine/machine/executor.hpp"
#include "engine/machine/task.hpp"
#include "sim/event_queue.hpp"

namespace vitro::sim {

class PhaseRepeater;
struct PhaseRecord;

// An sc_event keeps one notification and drops a later one, hence a queue of our own: the SC_METHOD pops what is due and
// asks to be woken for the next. Other SystemC modules may run beside it and call at() from their own processes. When there
// are none at the start of a run, nobody else looks at the kernel's time: it stays behind and catches up at the end.
// SystemC elaborates once per process: so does this.
class SimExecutor final : public sc_core::sc_module, public Executor {
 public:
  // shuffle: draws the tie, so that events of equal time come in a random but reproducible order.
  // The name has to live through the constructor: what is made in it becomes the module's own.
  explicit SimExecutor(std::optional<std::uint64_t> shuffle = std::nullopt, const sc_core::sc_module_name& name = "executor");

  // Time as policies see it: ahead of the devices' time while the policy's core works off what was charged to it.
  Picoseconds now() const override { return std::max(device_now(), policy_free_); }
  void post_at(Picoseconds when, std::coroutine_handle<> handle) override;
  void post_last(std::coroutine_handle<> handle) override;
  // The same for a coroutine that waits for a unit's result, which costs the policy's core something to take in (on_result).
  void post_result(Picoseconds when, std::coroutine_handle<> handle);
  // `take_in` runs before such a coroutine is resumed. Nothing: results are free.
  void on_result(std::function<void()> take_in) { take_in_ = std::move(take_in); }
  // The policy's core is busy until then; coroutines wait.
  void hold_policy_until(Picoseconds when) { policy_free_ = std::max(policy_free_, when); }

  Picoseconds device_now() const { return stepping_ ? time_ : kernel_time(); }
  void at(Picoseconds when, hw::Label label, hw::Callback action);

  // Runs until `task` is done; what is still queued then stays there. Rethrows the task's error, or that of a
  // device, with its type. Throws RunError when nothing is left that could resume the task.
  void run(Task<void>& task);

  // Null, as at first: every phase is simulated.
  void set_repeater(PhaseRepeater* repeater) { repeater_ = repeater; }
  bool phase_submitted(std::coroutine_handle<> waiter) override;
  void phase_ended() override;
  // What the repeater needs. settled(): no coroutine waits for the policy's core, and the queue alone decides what comes next.
  bool settled() const { return alone_ && !queue_.shuffles() && held_.empty() && !drain_posted_; }
  EventQueue& queue() { return queue_; }
  Picoseconds policy_free() const { return policy_free_; }
  void record_to(PhaseRecord* record) { record_ = record; }  // events as they come; null: no more
  void replay(Picoseconds when, hw::Label label) {  // an event without its action. Requires: when >= device_now()
    time_ = when;
    note(label);
  }
  void count_posts(std::uint64_t posts) { posts_ += posts; }

  std::uint64_t events() const { return events_; }
  std::uint64_t posts() const { return posts_; }  // coroutines put into the queue so far
  const Hash& hash() const { return hash_; }      // over (time, device, kind) of all events

 private:
  static Picoseconds kernel_time();
  void push(Picoseconds when, hw::Label label, std::coroutine_handle<> handle);
  void wake_at(Picoseconds when);
  void step();
  void run_to_end(Task<void>& task);
  void drain();  // resumes the policy's waiting coroutines while its core is free
  void execute(const Event& event);
  void resume(const Event& event);
  void note(hw::Label label) {  // an event, now
    ++events_;
    hash_.add(static_cast<std::uint64_t>(time_.count()));
    hash_.add(static_cast<std::uint64_t>(label.device) << 16 | label.kind);
  }

  EventQueue queue_;
  sc_core::sc_event wake_;
  boost::circular_buffer<Event> held_;  // coroutines that wait for the policy's core, in order
  std::function<void()> take_in_;
  bool drain_posted_ = false;
  bool stepping_ = false;
  bool alone_ = false;  // in this simulation
  Picoseconds time_{0}, policy_free_{0};
  std::uint64_t events_ = 0, posts_ = 0;
  Hash hash_;
  Task<void>* task_ = nullptr;
  PhaseRepeater* repeater_ = nullptr;
  PhaseRecord* record_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace vitro::sim
