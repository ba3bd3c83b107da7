// `cpu.calls: together` beside `each`: what is the same, and what differs.
#include <gmock/gmock.h>

#include "tests/sim/simulation.hpp"
#include "tests/sim/span_trace.hpp"

namespace vitro::sim {
namespace {

using testing::ElementsAre;

// Compute and memory, in turns: max(10, 20) + 30 + max(0, 10) us alone, at 10 GB/s, and 1 us for each call.
Chain mixed_chain() { return {test_call(10e3, 200e3, 1), test_call(30e3, 0, 2), test_call(0, 100e3, 3)}; }

struct Ran {
  Picoseconds time;
  std::vector<std::uint32_t> tags;
  MachineReport report;
};

// On so many cores at the same time.
Ran ran(const std::string& calls, std::size_t cores = 1, TraceSink* trace = nullptr) {
  Simulation simulation(round_options({"cpu.calls=" + calls, "core.call_overhead=1 us", "power.stalled_share={big: 0.25}"}), trace);
  Machine& machine = simulation.machine();
  std::vector<Task<void>> tasks;
  for (std::size_t i = 0; i < cores; ++i) tasks.push_back(run_chain(machine.units[i], mixed_chain()));
  simulation.run(together(&machine, std::move(tasks)));
  const Picoseconds now = simulation.now();
  return {now, simulation.function.tags, simulation.host().report(Picoseconds(0), now)};
}

TEST(UnitPieces, a_chain_alone_takes_as_long_as_call_by_call_in_fewer_events) {
  const Ran each = ran("each"), piece = ran("together");
  EXPECT_EQ(each.time, 63 * kUs);
  EXPECT_EQ(piece.time, each.time);
  EXPECT_THAT(piece.tags, ElementsAre(1, 2, 3));
  EXPECT_EQ(piece.tags, each.tags);
  ASSERT_EQ(each.report.counts[0].first, "events");
  EXPECT_LT(piece.report.counts[0].second, each.report.counts[0].second);
}

TEST(UnitPieces, energy_and_its_causes_are_the_same) {
  const Ran each = ran("each"), piece = ran("together");
  EXPECT_NEAR(*piece.report.energy_j, *each.report.energy_j, 1e-9);
  for (const auto split : {&MachineReport::energy_causes_j, &MachineReport::communication_parts_j, &MachineReport::energy_parts_j,
                           &MachineReport::energy_by_unit_j}) {
    const auto &ours = piece.report.*split, &theirs = each.report.*split;
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i].second, theirs[i].second, 1e-9) << ours[i].first;
  }
}

TEST(UnitPieces, calls_that_take_no_time_take_none_together) {
  Simulation simulation(round_options({"cpu.calls=together", "power.stalled_share={big: 0.25}"}), nullptr);
  Machine& machine = simulation.machine();
  simulation.run(run_chain(machine.units[0], {test_call(0, 0, 1), test_call(0, 0, 2)}));
  EXPECT_EQ(simulation.now(), Picoseconds(0));
  EXPECT_THAT(simulation.function.tags, ElementsAre(1, 2));
}

// 250 us are long: of calls of 100 us, a piece has three, and a call that is longer is one by itself.
TEST(UnitPieces, a_piece_that_is_long_takes_no_more_calls) {
  const auto events = [](const std::string& calls, std::vector<double> microseconds) {
    Simulation simulation(round_options({"cpu.calls=" + calls}));
    Chain chain;
    for (const double us : microseconds) chain.push_back(test_call(us * 1e3, 0));
    simulation.run(run_chain(simulation.machine().units[0], std::move(chain)));
    return simulation.host().report(Picoseconds(0), simulation.now()).counts[0].second;
  };
  const auto spared = [&](const std::vector<double>& chain) { return events("each", chain) - events("together", chain); };
  EXPECT_EQ(spared(std::vector<double>(10, 100)), 10u - 4u);
  EXPECT_EQ(spared({100, 300, 300, 100, 100}), 5u - 3u);  // 100 and 300, 300, and the rest
}

// Two cores get 8 GB/s each. Call by call a call that moves much is held up, whatever the unit does afterwards: 25 + 30 + 12.5 us. A
// piece is held up by its 300 KB together, which are there before its 60 us are over.
TEST(UnitPieces, a_crowd_holds_up_the_bytes_of_a_piece_together) {
  EXPECT_EQ(ran("each", 2).time, 67'500 * kNs + 3 * kUs);
  EXPECT_EQ(ran("together", 2).time, 63 * kUs);
}

TEST(UnitPieces, a_trace_shows_each_call_in_its_part_of_the_piece) {
  const auto kernels = [](const std::string& calls) {
    SpanTrace trace;
    const Ran traced = ran(calls, 1, &trace);
    EXPECT_EQ(traced.report.event_hash, ran(calls).report.event_hash) << "a trace changes nothing";
    std::vector<std::pair<Picoseconds, Picoseconds>> times;
    for (const Written& span : trace.spans) {
      if (span.track == "units/cpu0") times.emplace_back(span.begin, span.end);
    }
    return times;
  };
  const auto each = kernels("each"), piece = kernels("together");
  EXPECT_EQ(each.size(), 3u);
  EXPECT_EQ(piece, each);
}

TEST(UnitPieces, a_call_that_fails_is_the_last) {
  Simulation simulation(round_options({"cpu.calls=together"}));
  simulation.function.effect = [](const KernelCall& call) {
    if (call.slice.first == 2) throw RunError("the second");
  };
  EXPECT_THROW(simulation.run(run_chain(simulation.machine().units[0], mixed_chain())), RunError);
  EXPECT_THAT(simulation.function.tags, ElementsAre(1, 2));
}

TEST(UnitPieces, system_work_on_the_core_puts_the_end_off_by_as_much) {
  const auto time = [](const std::string& calls) {
    Simulation simulation(round_options({"cpu.calls=" + calls}));
    Machine& machine = simulation.machine();
    const FileId file = machine.storage.open_phantom(1 * MiB).value_or_throw();
    IoResult result;
    std::vector<Task<void>> tasks;
    tasks.push_back(run_chain(machine.units[0], mixed_chain()));
    tasks.push_back(read_into(&machine, read_request(machine, file, 0, 4 * KiB), &result));  // 1000 cycles of that core
    simulation.run(together(&machine, std::move(tasks)));
    EXPECT_TRUE(result.status.ok());
    return simulation.now();
  };
  EXPECT_EQ(time("together"), 61 * kUs);
  EXPECT_EQ(time("together"), time("each"));
}

}  // namespace
}  // namespace vitro::sim
