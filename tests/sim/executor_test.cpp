#include "sim/executor.hpp"

#include <gmock/gmock.h>

#include <stdexcept>

#include "engine/base/status.hpp"
#include "engine/machine/clock.hpp"
#include "engine/machine/task_scope.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

Task<void> sleep_then_note(Executor* executor, Picoseconds when, std::vector<int>* log, int number) {
  co_await sleep_until(*executor, when);
  log->push_back(number);
}

Task<void> spawn_sleepers(Executor* executor, std::vector<Picoseconds> times, std::vector<int>* log) {
  TaskScope scope(*executor);
  for (std::size_t i = 0; i < times.size(); ++i) scope.spawn(sleep_then_note(executor, times[i], log, static_cast<int>(i)));
  co_await scope.join();
}

std::vector<int> order_of(std::vector<Picoseconds> times, std::optional<std::uint64_t> shuffle = std::nullopt) {
  FreshContext context;
  SimExecutor executor(shuffle);
  std::vector<int> log;
  Task<void> task = spawn_sleepers(&executor, std::move(times), &log);
  executor.run(task);
  return log;
}

TEST(SimExecutor, resumes_by_time_and_equal_times_in_order_of_arrival) {
  EXPECT_EQ(order_of({5 * kNs, 3 * kNs, 5 * kNs, 1 * kNs, 3 * kNs}), (std::vector{3, 1, 4, 0, 2}));
}

TEST(SimExecutor, shuffles_ties_reproducibly_and_never_times) {
  const std::vector<Picoseconds> times(20, 7 * kNs);
  const auto plain = order_of(times), a = order_of(times, 1), b = order_of(times, 1), c = order_of(times, 2);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, plain);
  EXPECT_NE(a, c);
  EXPECT_EQ(order_of({5 * kNs, 3 * kNs, 1 * kNs}, 9), (std::vector{2, 1, 0}));
}

Task<void> count_sleeps(Executor* executor, int n) {
  for (int i = 1; i <= n; ++i) co_await sleep_until(*executor, Picoseconds(i));
}

TEST(SimExecutor, a_million_events_at_a_million_times) {
  FreshContext context;
  SimExecutor executor;
  Task<void> task = count_sleeps(&executor, 1'000'000);
  executor.run(task);
  EXPECT_EQ(executor.now(), Picoseconds(1'000'000));
  EXPECT_EQ(executor.events(), 1'000'001u);
}

// Nobody else is in the simulation: the kernel is asked twice, to begin and to catch up.
TEST(SimExecutor, without_neighbours_the_kernel_is_not_asked_for_every_event) {
  FreshContext context;
  SimExecutor executor;
  Task<void> task = count_sleeps(&executor, 1000);
  executor.run(task);
  EXPECT_EQ(sc_core::sc_time_stamp().value(), 1000u);
  EXPECT_LE(sc_core::sc_delta_count(), 3u);
}

Task<void> yield_often(Executor* executor, int n) {
  struct Yield {
    Executor& executor;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { executor.post(handle); }
    void await_resume() const {}
  };
  for (int i = 0; i < n; ++i) co_await Yield{*executor};
}

TEST(SimExecutor, a_million_events_at_one_time) {
  FreshContext context;
  SimExecutor executor;
  Task<void> task = yield_often(&executor, 1'000'000);
  executor.run(task);
  EXPECT_EQ(executor.now(), Picoseconds(0));
}

Task<void> fail_later(Executor* executor) {
  co_await sleep_until(*executor, 2 * kNs);
  throw ConfigError("from a coroutine");
}

TEST(SimExecutor, an_exception_of_a_task_keeps_its_type) {
  FreshContext context;
  SimExecutor executor;
  Task<void> task = fail_later(&executor);
  EXPECT_THROW(executor.run(task), ConfigError);
}

TEST(SimExecutor, an_exception_of_a_device_keeps_its_type) {
  FreshContext context;
  SimExecutor executor;
  executor.at(kNs, {1, 1}, [] { throw RunError("from a device"); });
  Task<void> task = count_sleeps(&executor, 5000);
  EXPECT_THROW(executor.run(task), RunError);
}

Task<void> wait_forever() { co_await std::suspend_always{}; }

// Of a run that a device's error ends: frames of its tasks are never given back (tests/main.cpp).
Task<void> spawn_abandoned(Executor* executor, std::vector<int>* log) {
  TaskScope scope(*executor);
  for (const int number : {0, 1}) scope.spawn(sleep_then_note(executor, (1 + 8 * number) * kNs, log, number));
  co_await scope.join();
}

TEST(SimExecutor, an_error_of_a_device_is_told_although_tasks_wait) {
  FreshContext context;
  SimExecutor executor;
  std::vector<int> log;
  {
    Task<void> task = spawn_abandoned(&executor, &log);
    executor.at(5 * kNs, {}, [] { throw RunError("the device is broken"); });
    EXPECT_THROW(executor.run(task), RunError);
  }  // its scope dies with a sleeper
  EXPECT_EQ(log, std::vector{0});
  EXPECT_TRUE(executor.abandoned());
}

TEST(SimExecutor, says_so_when_nothing_can_resume_the_task) {
  FreshContext context;
  SimExecutor executor;
  Task<void> task = wait_forever();
  EXPECT_THROW(executor.run(task), RunError);
}

TEST(SimExecutor, runs_one_task_after_another) {
  FreshContext context;
  SimExecutor executor;
  Task<void> first = count_sleeps(&executor, 10), second = count_sleeps(&executor, 20);
  executor.run(first);
  executor.run(second);
  EXPECT_EQ(executor.now(), Picoseconds(20));
}

Task<void> note_now(Executor* executor, std::vector<Picoseconds>* log) {
  log->push_back(executor->now());
  co_return;
}

Task<void> hold_and_spawn(SimExecutor* executor, std::vector<Picoseconds>* log) {
  TaskScope scope(*executor);
  executor->hold_policy_until(10 * kNs);
  scope.spawn(note_now(executor, log));
  executor->at(4 * kNs, {1, 1}, [executor] { executor->hold_policy_until(12 * kNs); });
  co_await scope.join();
}

TEST(SimExecutor, policy_code_waits_while_its_core_is_busy) {
  FreshContext context;
  SimExecutor executor;
  std::vector<Picoseconds> log;
  Task<void> task = hold_and_spawn(&executor, &log);
  executor.run(task);
  EXPECT_EQ(log, std::vector{12 * kNs});
}

SC_MODULE(Ticker) {
  SimExecutor & executor;
  std::vector<Picoseconds> seen;
  Ticker(sc_core::sc_module_name name, SimExecutor & e) : sc_module(name), executor(e) {
    SC_HAS_PROCESS(Ticker);
    SC_METHOD(tick);
  }
  void tick() {
    next_trigger(sc_core::sc_time(3, sc_core::SC_NS));
    executor.at(executor.device_now() + kNs, {7, 1}, [this] { seen.push_back(executor.device_now()); });
  }
};

TEST(SimExecutor, other_systemc_modules_may_schedule_from_their_processes) {
  FreshContext context;
  SimExecutor executor;
  Ticker ticker("ticker", executor);
  std::vector<int> log;
  Task<void> task = sleep_then_note(&executor, 8 * kNs, &log, 0);
  executor.run(task);
  EXPECT_EQ(ticker.seen, (std::vector{1 * kNs, 4 * kNs, 7 * kNs}));
  EXPECT_GT(sc_core::sc_delta_count(), 6u);  // with a neighbour the kernel's time goes along
}

// What a module of somebody else does at 5 ns.
struct Intruder final : sc_core::sc_module {
  std::function<void()> act;
  Intruder(const sc_core::sc_module_name& name, std::function<void()> what) : sc_module(name), act(std::move(what)) {
    SC_HAS_PROCESS(Intruder);
    SC_METHOD(run);
  }
  void run() {
    next_trigger(1, sc_core::SC_NS);
    if (sc_core::sc_time_stamp() == sc_core::sc_time(5, sc_core::SC_NS)) act();
  }
};

std::string failure_with(std::function<void()> act) {
  FreshContext context;
  SimExecutor executor;
  Intruder intruder("intruder", std::move(act));
  Task<void> task = count_sleeps(&executor, 20'000);
  try {
    executor.run(task);
  } catch (const RunError& error) {
    return error.what();
  }
  return executor.now() == Picoseconds(20'000) ? "(done)" : "(not done)";
}

TEST(SimExecutor, a_module_that_stops_the_kernel_ends_the_run_with_a_message) {
  EXPECT_EQ(failure_with([] { sc_core::sc_stop(); }), "a SystemC module called sc_stop() at 5 ns, before the run was done");
}

TEST(SimExecutor, a_module_that_pauses_the_kernel_changes_nothing) { EXPECT_EQ(failure_with([] { sc_core::sc_pause(); }), "(done)"); }

TEST(SimExecutor, what_a_module_reports_or_throws_is_a_message) {
  EXPECT_EQ(failure_with([] { SC_REPORT_ERROR("acme", "no row"); }), "a SystemC module failed at 5 ns: acme: no row (in intruder.run)");
  EXPECT_EQ(failure_with([] { SC_REPORT_FATAL("acme", "no clock"); }), "a SystemC module failed at 5 ns: acme: no clock (in intruder.run)");
  EXPECT_THAT(failure_with([] { throw std::runtime_error("no bank"); }), ::testing::HasSubstr("no bank"));
}

// Throws outside of any process, where SystemC passes exceptions on as they are.
struct FailsToStart final : sc_core::sc_module {
  explicit FailsToStart(const sc_core::sc_module_name& name) : sc_module(name) {}
  void start_of_simulation() override { throw std::runtime_error("no licence"); }
};

TEST(SimExecutor, what_a_module_throws_before_time_begins_is_a_message_and_leaves_reports_as_they_were) {
  FreshContext context;
  SimExecutor executor;
  FailsToStart module("module");
  Task<void> task = count_sleeps(&executor, 20'000);
  const sc_core::sc_actions before = sc_core::sc_report_handler::set_actions(sc_core::SC_FATAL, sc_core::SC_DEFAULT_FATAL_ACTIONS);
  std::string message;
  try {
    executor.run(task);
  } catch (const std::exception& error) {
    EXPECT_NE(dynamic_cast<const RunError*>(&error), nullptr);
    message = error.what();
  }
  EXPECT_EQ(message, "a SystemC module failed at 0 s: no licence");
  EXPECT_EQ(sc_core::sc_report_handler::set_actions(sc_core::SC_FATAL, before), sc_core::SC_DEFAULT_FATAL_ACTIONS);
}

}  // namespace
}  // namespace vitro::sim
