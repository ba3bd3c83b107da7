#include "sim/power_meter.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

Task<void> write_scratch(Machine* machine, Bytes length, IoResult* result) {
  WriteRequest request;
  request.to = {machine->storage.create_scratch(length).value_or_throw(), 0, length};
  request.from = machine->memory.lease(length, Placement::dram, Region::staging).value_or_throw();
  *result = co_await machine->storage.write(std::move(request));
}

TEST(PowerMeter, what_is_used_leaks_and_what_is_not_is_gated) {
  SimOptions options = round_options({"power.idle_watts={big: 0.25, npu: 0.5}"});
  const auto joules = [&](std::vector<std::string> units) {
    options.unit_names = std::move(units);
    Simulation simulation(options);
    simulation.run(run_chain(simulation.machine().units[0], {test_call(100'000, 0)}));
    return *simulation.host().report(Picoseconds(0), 100 * kUs).energy_j;
  };
  EXPECT_NEAR(joules({"cpu0"}), (1 + 0.25 + 2) * 100e-6, 1e-12);
  EXPECT_NEAR(joules({"cpu0", "cpu1"}), (1 + 2 * 0.25 + 2) * 100e-6, 1e-12);
  EXPECT_NEAR(joules({"cpu0", "npu"}), (1 + 0.25 + 0.5 + 2) * 100e-6, 1e-12);
}

// A core of 1 GHz and one multiply-add per cycle, at 10 GB/s and 100 pJ/B: 2 W when it computes, half a watt when it waits.
TEST(PowerMeter, a_core_draws_less_for_the_time_in_which_it_waits_for_memory) {
  const auto joules = [](double macs, double bytes) {
    Simulation simulation(round_options({"power.stalled_share={big: 0.25}"}));
    simulation.run(run_chain(simulation.machine().units[0], {test_call(macs, bytes)}));
    EXPECT_EQ(simulation.now(), 2 * kMs);
    const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
    EXPECT_NEAR(*report.peak_power_w, *report.energy_j / 2e-3, 1e-9);  // evenly over the call
    return *report.energy_j - 1 * 2e-3 - bytes * 100e-12;
  };
  EXPECT_NEAR(joules(2e6, 0), 2 * 2e-3, 1e-12);                        // bound by arithmetic
  EXPECT_NEAR(joules(2e6, 10e6), 2 * 2e-3, 1e-12);                     // likewise: memory is done before
  EXPECT_NEAR(joules(0, 20e6), 0.5 * 2e-3, 1e-12);                     // bound by memory
  EXPECT_NEAR(joules(0.5e6, 20e6), 2 * 0.5e-3 + 0.5 * 1.5e-3, 1e-12);  // a quarter of the time it computes
}

double whole_of(const PowerMeter::Shares& shares) {
  double sum = 0;
  for (const auto& [name, joules] : shares) sum += joules;
  return sum;
}

// Two cores at 2 W, of which one computes for 2 ms and one for 1, and a quarter of a watt that each leaks; 10 MB at 100 pJ/B.
TEST(PowerMeter, each_unit_has_its_own_share_and_all_sum_to_the_whole) {
  SimOptions options = round_options({"power.idle_watts={big: 0.25, npu: 0.5}"});
  options.unit_names = {"cpu0", "cpu1", "npu"};
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  std::vector<Task<void>> parts;
  parts.push_back(run_chain(machine.units[0], {test_call(2e6, 0)}));
  parts.push_back(run_chain(machine.units[1], {test_call(1e6, 10e6)}));
  simulation.run(together(&machine, std::move(parts)));
  ASSERT_EQ(simulation.now(), 2 * kMs);
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  const auto near = [](double joules) { return DoubleNear(joules, 1e-12); };
  const double first = 2 * 2e-3 + 0.25 * 2e-3, second = 2 * 1e-3 + 0.25 * 2e-3, npu = 0.5 * 2e-3, dram = 10e6 * 100e-12, base = 2e-3;
  EXPECT_THAT(report.energy_by_unit_j, ElementsAre(Pair("cpu0", near(first)), Pair("cpu1", near(second)), Pair("npu", near(npu)),
                                                   Pair("dram", near(dram)), Pair("flash", 0), Pair("base", near(base))));
  EXPECT_THAT(report.energy_by_kind_j, ElementsAre(Pair("cores", near(first + second)), Pair("npu", near(npu)), Pair("dram", near(dram)),
                                                   Pair("flash", 0), Pair("base", near(base))));
  EXPECT_NEAR(whole_of(report.energy_by_unit_j), *report.energy_j, 1e-12);
  const MachineReport tail = simulation.host().report(1 * kMs, simulation.now());  // what the second core computed is over
  EXPECT_NEAR(tail.energy_by_unit_j[1].second, 0.25e-3, 1e-12);
}

TEST(PowerMeter, a_unit_that_is_gated_has_no_share_and_its_kind_has_nothing) {
  SimOptions options = round_options({"power.idle_watts={big: 0.25, npu: 0.5}"});
  options.unit_names = {"cpu0"};
  Simulation simulation(options);
  simulation.run(run_chain(simulation.machine().units[0], {test_call(1e6, 0)}));
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  EXPECT_THAT(report.energy_by_unit_j, ElementsAre(Pair("cpu0", DoubleNear(2.25e-3, 1e-12)), Pair("dram", 0), Pair("flash", 0),
                                                   Pair("base", DoubleNear(1e-3, 1e-12))));
  EXPECT_THAT(report.energy_by_kind_j, ElementsAre(Pair("cores", DoubleNear(2.25e-3, 1e-12)), Pair("npu", 0), Pair("dram", 0),
                                                   Pair("flash", 0), Pair("base", DoubleNear(1e-3, 1e-12))));
}

// More calls than a sum remembers one by one, under a governor and in heat: clocks and so draws change, and windows cut through calls.
TEST(PowerMeter, shares_of_units_sum_to_the_whole_in_any_window_of_a_long_run) {
  SimOptions options = round_options(
      {"power.idle_watts={big: 0.25}", "power.stalled_share={big: 0.25}",
       "power.governor={lowest: {kind: assumed, source: test, big: 0.2}}",
       "power.thermal={resistance_k_per_w: 10, capacity_j_per_k: 1e-4, ambient: 25 degC, step: 50 us, clock_steps: {a: 0.5}, "
       "trip: 45 degC, hysteresis: 2 K}"});
  options.unit_names = {"cpu0", "cpu1"};
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  for (int i = 0; i < 800; ++i) {
    std::vector<Task<void>> parts;
    parts.push_back(run_chain(machine.units[0], Chain(100, test_call(i % 7 * 1000, i % 5 * 1e4))));
    parts.push_back(run_chain(machine.units[1], Chain(50, test_call(i % 3 * 1500, 0))));
    simulation.run(together(&machine, std::move(parts)));
  }
  const Picoseconds end = simulation.now();
  for (const Picoseconds from : {Picoseconds(0), end / 7, end / 3}) {
    const MachineReport report = simulation.host().report(from, end);
    EXPECT_NEAR(whole_of(report.energy_by_unit_j) / *report.energy_j, 1, 1e-9);
    EXPECT_NEAR(whole_of(report.energy_by_kind_j) / *report.energy_j, 1, 1e-9);
    EXPECT_GT(report.energy_by_unit_j[0].second, report.energy_by_unit_j[1].second);
    EXPECT_GT(report.energy_by_unit_j[1].second, 0.25 * 0.5 * to_seconds(end - from));  // it leaks at the lowest voltage at least
  }
}

TEST(PowerMeter, two_cores_that_share_a_bandwidth_wait_longer) {
  Simulation simulation(round_options({"power.stalled_share={big: 0.25}"}));
  Machine& machine = simulation.machine();
  std::vector<Task<void>> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(run_chain(machine.units[i], {test_call(1e6, 16e6)}));
  simulation.run(together(&machine, std::move(parts)));
  ASSERT_EQ(simulation.now(), 2 * kMs);  // 16 GB/s of the CPU, 8 for each
  const double cores = 2 * (2 * 1e-3 + 0.5 * 1e-3);
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  EXPECT_NEAR(*report.energy_j, 1 * 2e-3 + 32e6 * 100e-12 + cores, 1e-12);
  EXPECT_THAT(report.energy_parts_j, ElementsAre(Pair("base", DoubleNear(1 * 2e-3, 1e-12)), Pair("units", DoubleNear(cores, 1e-12)),
                                                 Pair("dram", DoubleNear(32e6 * 100e-12, 1e-12)), Pair("flash", 0)));
}

TEST(PowerMeter, what_it_draws_changes_no_time) {
  const auto run = [](const char* share) {
    Simulation simulation(round_options({std::string("power.stalled_share={big: ") + share + "}"}));
    simulation.run(run_chain(simulation.machine().units[0], {test_call(1e6, 20e6), test_call(3e6, 0)}));
    return std::pair(simulation.now(), simulation.host().report(Picoseconds(0), simulation.now()).event_hash);
  };
  EXPECT_EQ(run("0.1"), run("1"));
}

TEST(PowerMeter, a_write_costs_the_flash_more_than_a_read) {
  const auto joules = [](const char* per_byte) {
    SimOptions options = round_options({std::string("power.flash_write_byte=") + per_byte});
    options.phantom = true;
    Simulation simulation(options);
    IoResult result;
    simulation.run(write_scratch(&simulation.machine(), 64 * KiB, &result));
    EXPECT_TRUE(result.status.ok());
    return *simulation.host().report(Picoseconds(0), simulation.now()).energy_j;
  };
  EXPECT_NEAR(joules("1200 pJ/B") - joules("200 pJ/B"), 65'536 * 1000e-12, 1e-12);
}

// 2 ms of arithmetic, then 2 ms of memory at 10 GB/s (1 W, and the core is busy throughout): never both at once.
TEST(PowerMeter, the_peak_is_of_things_that_happen_at_the_same_time) {
  Simulation simulation(round_options());
  simulation.run(run_chain(simulation.machine().units[0], {test_call(2e6, 0), test_call(0, 20e6)}));
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  EXPECT_NEAR(*report.peak_power_w, 1 + 2 + 1, 1e-6);
  const MachineReport first = simulation.host().report(Picoseconds(0), 2 * kMs);
  EXPECT_NEAR(*first.peak_power_w, 1 + 2, 1e-6);
}

// A time constant of 1 ms: one busy core settles at 55 degC, an idle machine at 35.
std::vector<std::string> hot(const std::string& more = "trip: 45 degC, hysteresis: 2 K") {
  return {"power.thermal={resistance_k_per_w: 10, capacity_j_per_k: 1e-4, ambient: 25 degC, step: 50 us, clock_steps: {a: 0.5}, " + more +
          "}"};
}

struct Outcome {
  Picoseconds end{0};
  double joules = 0;
  std::string hash, note;
};

Outcome arithmetic(int calls, const std::vector<std::string>& overrides, TraceSink* trace = nullptr) {
  Simulation simulation(round_options(overrides), trace);
  Chain chain(static_cast<std::size_t>(calls), test_call(100'000, 0));
  simulation.run(run_chain(simulation.machine().units[0], std::move(chain)));
  const MachineReport report = simulation.host().report(Picoseconds(0), simulation.now());
  return {simulation.now(), *report.energy_j, report.event_hash, report.notes.front()};
}

TEST(PowerMeter, heat_slows_a_long_run_down) {
  const Outcome cool = arithmetic(100, {}), throttled = arithmetic(100, hot());
  EXPECT_EQ(cool.end, 10 * kMs);
  EXPECT_GT(throttled.end, 11 * kMs);
  EXPECT_LT(throttled.end, 20 * kMs);  // half the clock throughout
  EXPECT_THAT(throttled.note, HasSubstr("clocks lowered for"));
  EXPECT_LT(throttled.joules, cool.joules + 1 * to_seconds(throttled.end - cool.end));  // a lower voltage saves some
}

TEST(PowerMeter, a_run_that_stays_cold_is_the_run_without_a_thermal_model) {
  const Outcome without = arithmetic(5, {}), cold = arithmetic(5, hot());
  EXPECT_EQ(cold.end, without.end);
  EXPECT_EQ(cold.hash, without.hash);
  EXPECT_DOUBLE_EQ(cold.joules, without.joules);
  EXPECT_THAT(cold.note, HasSubstr("lowered for 0.0 %"));
}

TEST(PowerMeter, a_trip_point_above_the_steady_state_never_throttles) {
  EXPECT_EQ(arithmetic(100, hot("trip: 56 degC")).end, 10 * kMs);
  EXPECT_GT(arithmetic(100, hot("trip: 54 degC")).end, 10 * kMs);
}

// 10 GB/s are 1 W beside the base: 50 degC with a core that waits for half a watt, 65 with one that draws 2 W for it.
TEST(PowerMeter, a_core_that_waits_for_memory_stays_cooler) {
  const auto note = [](const std::string& share) {
    std::vector<std::string> keys = hot("trip: 55 degC");
    keys.push_back("power.stalled_share={big: " + share + "}");
    Simulation simulation(round_options(keys));
    simulation.run(run_chain(simulation.machine().units[0], Chain(100, test_call(0, 1e6))));
    return simulation.host().report(Picoseconds(0), simulation.now()).notes.front();
  };
  EXPECT_THAT(note("0.25"), HasSubstr("50.0 at most; clocks lowered for 0.0 %"));
  EXPECT_THAT(note("1"), Not(HasSubstr("lowered for 0.0 %")));
}

// A window may end before one that was asked for earlier, and before the step up to which the machine has heated up: by then its clocks are
// low for good.
TEST(PowerMeter, windows_may_be_asked_for_in_any_order) {
  Simulation simulation(round_options(hot("trip: 30 degC, hysteresis: 1 K")));
  simulation.run(run_chain(simulation.machine().units[0], Chain(100, test_call(100'000, 0))));
  const auto note = [&](Picoseconds begin, Picoseconds end) { return simulation.host().report(begin, end).notes.front(); };
  const std::string whole = note(Picoseconds(0), simulation.now());
  EXPECT_THAT(whole, HasSubstr("to 50 % at the end"));
  EXPECT_THAT(note(Picoseconds(0), 100 * kUs), HasSubstr("lowered for 0.0 %"));
  EXPECT_EQ(note(Picoseconds(0), simulation.now()), whole);
}

TEST(PowerMeter, heat_is_deterministic) {
  const Outcome a = arithmetic(100, hot()), b = arithmetic(100, hot());
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.note, b.note);
  EXPECT_EQ(a.joules, b.joules);
}

// At half the clock the core draws 2 W * 0.5 * 0.8^2 above the base of 1 W.
TEST(PowerMeter, a_throttled_call_takes_longer_and_draws_less) {
  const Outcome slow = arithmetic(100, hot("trip: 26 degC, hysteresis: 30 K"));  // from the second step on, for good
  const double calls_at_half = to_seconds(slow.end - 10 * kMs) / 100e-6;
  EXPECT_NEAR(slow.joules, (1 + 2) * (100 - calls_at_half) * 100e-6 + (1 + 2 * 0.5 * 0.8 * 0.8) * calls_at_half * 200e-6, 1e-9);
  EXPECT_GT(calls_at_half, 95);
}

// A call, then 40 MiB to the flash at 2.048 GB/s, for which no core does anything, and another call.
struct Waited {
  Picoseconds wait{0}, second{0};
  double joules = 0;
};

Waited wait_between_calls(std::vector<std::string> overrides) {
  overrides.push_back("ufs.max_transfer=64 MiB");  // one command
  SimOptions options = round_options(overrides);
  options.unit_names = {"cpu0"};
  options.phantom = true;
  Simulation simulation(options);
  ComputeUnit* const core = simulation.machine().units[0];
  simulation.run(run_chain(core, {test_call(10e6, 0)}));
  const Picoseconds begin = simulation.now();
  IoResult result;
  simulation.run(write_scratch(&simulation.machine(), 40 * MiB, &result));
  EXPECT_TRUE(result.status.ok());
  const Picoseconds end = simulation.now();
  simulation.run(run_chain(core, {test_call(1e6, 0)}));
  return {end - begin, simulation.now() - end, *simulation.host().report(Picoseconds(0), simulation.now()).energy_j};
}

// Linux's load tracking halves what it remembers in 32 periods of 1024 us, of which 20 pass here: 1.25 x 2^(-20/32) of the clock.
TEST(PowerMeter, a_core_that_has_waited_goes_on_at_the_clock_of_its_load) {
  const Waited fixed = wait_between_calls({}), governed = wait_between_calls({"power.governor={lowest: {big: 0.25}}"});
  EXPECT_NEAR(to_seconds(fixed.wait), 20.5e-3, 0.1e-3);
  EXPECT_EQ(governed.wait, fixed.wait);
  EXPECT_EQ(fixed.second, 1 * kMs);
  EXPECT_NEAR(to_seconds(governed.second), 1e-3 / (1.25 * std::exp2(-20 / 32.0)), 0.03e-3);
  const Waited lowest = wait_between_calls({"power.governor={lowest: {big: 0.95}}"});
  EXPECT_NEAR(to_seconds(lowest.second), 1e-3 / 0.95, 1e-6);
  // At a lower clock and voltage, a call needs less above the base of 1 W and takes longer.
  EXPECT_LT(governed.joules - fixed.joules, 1 * to_seconds(governed.second - fixed.second));
}

TEST(PowerMeter, cores_that_never_wait_are_those_without_a_governor) {
  const Outcome without = arithmetic(100, {}), with = arithmetic(100, {"power.governor={lowest: {big: 0.25}}"});
  EXPECT_EQ(with.end, without.end);
  EXPECT_EQ(with.hash, without.hash);
  EXPECT_DOUBLE_EQ(with.joules, without.joules);
}

TEST(PowerMeter, a_core_that_waits_for_long_is_switched_off) {
  const auto joules = [](const char* after) {
    return wait_between_calls({"power.idle_watts={big: 0.25}", std::string("power.collapse_after_us={big: ") + after + "}"});
  };
  const Waited never = joules("1000000"), soon = joules("5000"), later = joules("10000");
  EXPECT_EQ(soon.second, never.second);
  EXPECT_NEAR(never.joules - soon.joules, 0.25 * (to_seconds(soon.wait) - 5e-3), 0.25 * 0.1e-3);
  EXPECT_NEAR(later.joules - soon.joules, 0.25 * 5e-3, 1e-9);
}

class Counters final : public TraceSink {
 public:
  bool enabled() const override { return true; }
  TrackId track(std::string_view group, std::string_view name) override {
    names_.push_back(std::string(group) + "/" + std::string(name));
    return TrackId(names_.size() - 1);
  }
  void span(TrackId, Picoseconds, Picoseconds, std::string_view, std::string_view) override {}
  void counter(TrackId track, Picoseconds at, double value) override {
    if (names_[static_cast<std::size_t>(track)] == "power/temperature") temperatures.emplace_back(at, value);
  }
  void decision(std::string_view, std::string_view, std::string_view) override {}

  std::vector<std::pair<Picoseconds, double>> temperatures;

 private:
  std::vector<std::string> names_;
};

TEST(PowerMeter, temperature_is_a_trace_counter_once_per_step) {
  Counters trace;
  arithmetic(20, hot("trip: 90 degC"), &trace);
  ASSERT_EQ(trace.temperatures.size(), 40u);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(trace.temperatures[i].first, (i + 1) * 50 * kUs);
  EXPECT_NEAR(trace.temperatures.back().second, 25 + 30 * (1 - 0.1353), 0.5);  // 2 time constants at 3 W
}

}  // namespace
}  // namespace vitro::sim
