#include "engine/host/host_machine.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace vitro {
namespace {

// add: out[i] = a[i] + b[i]. reduce: out[i] = sum over p. glu: reports its slice as active. sample: throws.
class TinyFunction final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    ++calls;
    if (call.is<ops::Add>()) {
      const std::uint32_t n = call.out[0].shape[0];
      for (std::uint32_t i = 0; i < n; ++i) call.out[0].as<float>()[i] = call.in[0].as<float>()[i] + call.in[1].as<float>()[i];
    }
    if (call.is<ops::Glu>()) return ActiveSet{{std::make_shared<const std::vector<std::uint32_t>>(1, call.slice.first)}};
    if (call.is<ops::Sample>()) throw RunError("no logits");
    return {};
  }
  std::atomic<int> calls = 0;
};

HostOptions two_units() {
  HostOptions options;
  options.units = 2;
  options.share_cores = true;
  return options;
}

KernelCall call_of(Op op, std::uint32_t first = 0) {
  KernelCall call;
  call.op = op;
  call.slice = {first, 1};
  return call;
}

Task<void> run_chains(Machine* machine, std::size_t unit, int n, int* right) {
  for (int i = 0; i < n; ++i) {
    Chain chain{call_of(ops::Glu{}, 2 * i), call_of(ops::RmsNorm{}), call_of(ops::Glu{}, 2 * i + 1)};
    const RunResult result = co_await machine->units[unit]->run(std::move(chain));
    const bool ok = result.outcomes.size() == 2 && std::get<ActiveSet>(result.outcomes[0]).rows[0]->front() == 2u * i &&
                    std::get<ActiveSet>(result.outcomes[1]).rows[0]->front() == 2u * i + 1;
    *right += ok;
  }
}

Task<void> run_everywhere(Machine* machine, int* right) {
  TaskScope scope(machine->executor);
  for (int lane = 0; lane < 8; ++lane) scope.spawn(run_chains(machine, lane % machine->units.size(), 100, right));
  co_await scope.join();
}

TEST(HostMachine, chains_bring_their_outcomes_in_order) {
  TinyFunction function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  int right = 0;
  host->run(run_everywhere(&host->machine(), &right));
  EXPECT_EQ(right, 800);
  EXPECT_EQ(function.calls, 2400);
}

TEST(HostMachine, threads_that_do_not_spin_do_the_same) {
  TinyFunction function;
  NullTrace trace;
  HostOptions options = two_units();
  options.spin = Picoseconds(0);
  const auto host = make_host_machine(options, function, trace);
  int right = 0;
  host->run(run_everywhere(&host->machine(), &right));
  EXPECT_EQ(right, 800);
}

Task<void> run_a_failing_chain(Machine* machine, std::string* message) {
  try {
    Chain chain{call_of(ops::Glu{}), call_of(ops::Sample{}), call_of(ops::Glu{})};
    co_await machine->units[0]->run(std::move(chain));
  } catch (const RunError& error) {
    *message = error.what();
  }
  // The unit lives on.
  const RunResult result = co_await machine->units[0]->run(call_of(ops::Glu{}));
  EXPECT_EQ(result.outcomes.size(), 1u);
}

TEST(HostMachine, a_kernel_that_throws_ends_its_chain_and_is_rethrown_where_it_is_awaited) {
  TinyFunction function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  std::string message;
  host->run(run_a_failing_chain(&host->machine(), &message));
  EXPECT_EQ(message, "no logits");
  EXPECT_EQ(function.calls, 3);
}

View vector_of(const Lease& lease, Bytes offset, std::uint32_t n) {
  View view;
  view.memory = lease;
  view.offset = offset;
  view.shape = {n, 0, 0};
  return view;
}

Task<void> launch_twice(Machine* machine) {
  const Lease memory = machine->memory.lease(4 * kPageSize, Placement::dram, Region::activation).value_or_throw();
  auto* values = reinterpret_cast<float*>(memory.data());
  for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(i + 1);
  GraphSpec spec;
  spec.name = "add twice";
  KernelCall call = call_of(ops::Add{});
  call.in = {vector_of(memory, 0, 4), vector_of(memory, 0, 4)};
  call.out = {vector_of(Lease(), 0, 4)};
  call.out[0].slot = 1;
  spec.calls.push_back(call);
  ComputeUnit& unit = *machine->units[1];
  const Graph graph = (co_await unit.load(std::move(spec))).value_or_throw();
  for (Bytes at : {kPageSize, 2 * kPageSize}) {
    Bindings bindings;
    bindings.views.push_back(vector_of(memory, at, 4));
    co_await unit.launch(graph, std::move(bindings));
    const auto* sum = reinterpret_cast<const float*>(memory.data() + at);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(sum[i], 2.0f * static_cast<float>(i + 1));
  }
  unit.unload(graph);
}

TEST(HostMachine, a_graph_runs_on_the_views_it_is_launched_with) {
  TinyFunction function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  host->run(launch_twice(&host->machine()));
  EXPECT_EQ(function.calls, 2);
}

// Where a call runs.
class WhereFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override {
    const std::scoped_lock lock(mutex);
    cpus.insert(::sched_getcpu());
    threads.insert(std::this_thread::get_id());
    return {};
  }
  std::mutex mutex;
  std::set<int> cpus;
  std::set<std::thread::id> threads;
};

Task<void> run_on(Machine* machine, std::size_t unit, int n) {
  for (int i = 0; i < n; ++i) co_await machine->units[unit]->run(call_of(ops::RmsNorm{}));
}

TEST(HostMachine, a_worker_is_its_own_thread_pinned_to_the_cpu_of_its_caps) {
  WhereFunction function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  host->run(run_on(&host->machine(), 1, 50));
  EXPECT_EQ(function.threads.size(), 1u);
  EXPECT_FALSE(function.threads.contains(std::this_thread::get_id()));
  EXPECT_EQ(function.cpus, std::set<int>{host->machine().units[1]->caps().os_cpu});
}

TEST(HostMachine, run_leaves_the_affinity_of_the_calling_thread_as_it_was) {
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  TinyFunction function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  host->run(run_on(&host->machine(), 0, 1));
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

std::string config_error(const HostOptions& options) {
  TinyFunction function;
  NullTrace trace;
  try {
    make_host_machine(options, function, trace);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(HostMachine, more_units_than_cores_are_refused_and_the_message_counts_the_cores) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int cores = CPU_COUNT(&allowed);
  HostOptions options;
  options.units = static_cast<std::uint32_t>(cores) + 1;
  EXPECT_NE(config_error(options).find("may use only " + std::to_string(cores) + " core"), std::string::npos) << config_error(options);
}

TEST(HostMachine, units_can_be_chosen_by_name) {
  HostOptions options = two_units();
  options.unit_names = {"cpu0"};
  TinyFunction function;
  NullTrace trace;
  const auto host = make_host_machine(options, function, trace);
  ASSERT_EQ(host->machine().units.size(), 1u);
  EXPECT_EQ(host->machine().units[0]->caps().name, "cpu0");
  options.unit_names = {"gpu"};
  EXPECT_NE(config_error(options).find("no unit \"gpu\""), std::string::npos);
  options.unit_names = {"cpu0", "cpu0"};
  EXPECT_NE(config_error(options).find("named twice"), std::string::npos);
}

// Keeps "name detail" of the spans of each track.
class Spans final : public TraceSink {
 public:
  bool enabled() const override { return true; }
  TrackId track(std::string_view, std::string_view name) override {
    const std::scoped_lock lock(mutex_);
    names_.emplace_back(name);
    return TrackId(names_.size() - 1);
  }
  void span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail) override {
    const std::scoped_lock lock(mutex_);
    EXPECT_LE(begin, end);
    spans_[names_[static_cast<std::size_t>(track)]].push_back(std::string(name) + " " + std::string(detail));
  }
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view, std::string_view, std::string_view) override {}

  const std::vector<std::string>& of(const std::string& track) { return spans_[track]; }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<std::string>> spans_;
};

TEST(HostMachine, each_call_is_a_span_on_the_track_of_its_unit) {
  TinyFunction function;
  Spans trace;
  const auto host = make_host_machine(two_units(), function, trace);
  host->run(run_on(&host->machine(), 1, 3));
  EXPECT_EQ(trace.of("cpu1"), std::vector<std::string>(3, "rms_norm 0+1"));
}

TEST(HostMachine, the_report_shares_lie_in_the_window_and_unknown_things_are_null) {
  TinyFunction function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  const Picoseconds begin = host->machine().clock.now();
  host->run(run_on(&host->machine(), 0, 10));
  const MachineReport report = host->report(begin, host->machine().clock.now());
  ASSERT_TRUE(report.io_share && report.cpu_utilization);
  EXPECT_EQ(*report.io_share, 0.0);
  EXPECT_GT(*report.cpu_utilization, 0.0);
  EXPECT_LE(*report.cpu_utilization, 1.0);
  EXPECT_FALSE(report.energy_j || report.peak_power_w || report.dram_bandwidth_gb_per_s);
  ASSERT_FALSE(report.notes.empty());
  EXPECT_EQ(report.notes[0], "storage: " + host->machine().storage.caps().path);
}

}  // namespace
}  // namespace vitro
