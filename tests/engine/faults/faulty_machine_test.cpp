#include "engine/faults/faulty_machine.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "engine/base/file.hpp"
#include "engine/faults/fault_parts.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "tests/engine/machine/deliveries.hpp"

namespace vitro {
namespace {

using test::Deliveries;
using test::read_page;

constexpr Picoseconds kRead{1000};

// Chooses token 7, whatever it is asked.
class ChoosesSeven final : public Function {
 public:
  Outcome execute(const KernelCall&) override {
    ++calls;
    return TokenChoice{{7}};
  }
  int calls = 0;
};

// A virtual machine with two units and a file of three pages, 0x11, 0x22 and 0x33, that has these faults.
struct Bench {
  explicit Bench(std::vector<Fault> faults, bool checksums = false) {
    const std::string path = (std::filesystem::temp_directory_path() / ("vitro-faults-" + std::to_string(::getpid()))).string();
    {
      OutputFile out(path);
      for (const char byte : {'\x11', '\x22', '\x33'}) out.write(std::string(kPageSize, byte));
      out.commit();
    }
    VirtualMachineSpec spec;
    spec.units.resize(2);
    spec.units[0].name = "cpu0", spec.units[1].name = "npu", spec.units[1].id = UnitId(1);
    spec.memory_limits[0] = MiB;
    auto inner = std::make_unique<VirtualMachine>(std::move(spec), function, trace);
    host = std::make_unique<FaultyMachine>(std::move(inner), FaultPlan{1, std::move(faults), checksums});
    file = machine().storage.open(path).value_or_throw();
    std::filesystem::remove(path);
    into = machine().memory.reserve(3 * kPageSize, Placement::dram, Region::staging).value_or_throw();
  }
  Machine& machine() { return host->machine(); }
  struct Seen {
    IoResult result;
    Picoseconds at{0};
  };
  static Task<void> read_one(Bench* bench, Bytes page, Seen* seen) {
    ReadRequest request{{bench->file, page * kPageSize, kPageSize}, bench->into, page * kPageSize};
    seen->result = co_await bench->machine().storage.read(std::move(request));
    seen->at = bench->machine().clock.now();
  }
  static Task<void> read_three(Bench* bench, std::vector<Seen>* seen) {
    TaskScope scope(bench->machine().executor);
    for (Bytes page = 0; page < 3; ++page) scope.spawn(read_one(bench, page, &(*seen)[page]));
    co_await scope.join();
  }
  static Task<void> read_vector(Bench* bench, std::vector<Seen>* seen) {
    std::vector<ReadRequest> requests;
    for (Bytes page = 0; page < 3; ++page) requests.push_back({{bench->file, page * kPageSize, kPageSize}, bench->into, page * kPageSize});
    VectorRead read = bench->machine().storage.read_many(std::move(requests));
    while (const VectorRead::Group* group = co_await read.next()) {
      for (const ReadCompletion& done : *group) (*seen)[done.index] = {done.result, bench->machine().clock.now()};
    }
  }
  // Three pages, one by one or as a vector.
  std::vector<Seen> read(bool vector = false) {
    std::vector<Seen> seen(3);
    host->run(vector ? read_vector(this, &seen) : read_three(this, &seen));
    return seen;
  }
  std::byte first_of(Bytes page) const { return into.data()[page * kPageSize]; }
  static Task<void> run_one(Bench* bench, std::size_t unit, RunResult* result) {
    KernelCall call;
    call.op = ops::Sample{};
    *result = co_await bench->machine().units[unit]->run(std::move(call));
  }
  RunResult run(std::size_t unit = 0) {
    RunResult result;
    host->run(run_one(this, unit, &result));
    return result;
  }

  ChoosesSeven function;
  NullTrace trace;
  std::unique_ptr<FaultyMachine> host;
  FileId file{};
  Lease into;
};

// So that a storage that treats reads together as one piece does so with faults before it that strike nothing.
TEST(FaultyMachine, a_vector_that_nothing_strikes_is_delivered_as_it_was_asked_for) {
  Bench bench({});
  FaultState state(FaultPlan{1, {{.kind = FaultKind::read_error, .at = 100}}, false});
  Deliveries behind(bench.machine().storage);
  FaultyFlash flash(behind, state);
  const std::vector<Delivery> both{Delivery::together, Delivery::as_they_come};
  for (const Delivery delivery : both) bench.host->run(read_page(&flash, bench.file, bench.into, delivery));
  EXPECT_EQ(behind.seen, both);
}

TEST(FaultyMachine, without_faults_it_is_the_machine_behind_it) {
  for (const bool vector : {false, true}) {
    Bench bench({});
    const auto seen = bench.read(vector);
    for (std::size_t page = 0; page < 3; ++page) {
      EXPECT_TRUE(seen[page].result.status.ok());
      EXPECT_EQ(seen[page].at, (page + 1) * kRead);
      EXPECT_EQ(bench.first_of(page), std::byte(0x11 * (page + 1)));
    }
    EXPECT_EQ(bench.host->tally().started, bench.host->tally().ended);
  }
}

TEST(FaultyMachine, each_fault_of_reads_strikes_the_one_that_it_names) {
  for (const bool vector : {false, true}) {
    Bench error({{FaultKind::read_error, 1}}), part({{FaultKind::short_read, 1, 1, Picoseconds(0), 100}});
    Bench late({{FaultKind::latency, 1, 1, 5 * kRead}}), wrong({{FaultKind::corrupt_read, 1}});
    EXPECT_EQ(error.read(vector)[1].result.status.code, Code::io_error);
    EXPECT_EQ(error.first_of(1), std::byte{0}) << "nothing was read";
    EXPECT_EQ(error.first_of(2), std::byte{0x33});
    const auto cut = part.read(vector);
    EXPECT_EQ(cut[1].result.status.code, Code::short_read);
    EXPECT_EQ(cut[1].result.done, 100u);
    EXPECT_EQ(late.read(vector)[1].at, (vector ? 6 : 7) * kRead) << "of a vector it is submitted before those that nothing strikes";
    const auto bad = wrong.read(vector);
    EXPECT_TRUE(bad[1].result.status.ok());
    EXPECT_EQ(wrong.first_of(1), std::byte{0x22 ^ 0x55});
    for (Bench* bench : {&error, &part, &late, &wrong}) EXPECT_EQ(bench->host->tally().started, bench->host->tally().ended);
  }
}

TEST(FaultyMachine, a_stall_holds_everything_up_and_a_full_queue_takes_one_at_a_time) {
  Bench stalled({{FaultKind::stall, 0, 1, 10 * kRead}});
  for (const auto& seen : stalled.read()) EXPECT_GE(seen.at, 10 * kRead);
  Bench full({{FaultKind::queue_full, 0, 3}});
  const auto seen = full.read();
  for (std::size_t page = 0; page < 3; ++page) EXPECT_EQ(seen[page].at, (page + 1) * kRead);
  EXPECT_EQ(full.host->tally().fired[static_cast<std::size_t>(FaultKind::queue_full)], 3u);
}

TEST(FaultyMachine, reordered_reads_all_come_and_one_seed_has_one_order) {
  const auto order = [] {
    Bench bench({{FaultKind::reorder, 0, 3, 100 * kRead}});
    std::vector<Picoseconds> at;
    for (const auto& seen : bench.read()) {
      EXPECT_TRUE(seen.result.status.ok());
      at.push_back(seen.at);
    }
    return at;
  };
  EXPECT_EQ(order(), order());
  EXPECT_FALSE(std::ranges::is_sorted(order())) << "with seed 1";
}

TEST(FaultyMachine, storage_that_was_lost_comes_back) {
  Bench bench({{FaultKind::storage_lost, 0, 2}});
  const auto seen = bench.read();
  EXPECT_EQ(seen[0].result.status.code, Code::io_error);
  EXPECT_EQ(seen[1].result.status.code, Code::io_error);
  EXPECT_TRUE(seen[2].result.status.ok());
}

TEST(FaultyMachine, with_checksums_a_wrong_read_is_read_again_and_then_an_error) {
  Bench once({{FaultKind::corrupt_read, 1}}, true);
  const auto seen = once.read();
  for (std::size_t page = 0; page < 3; ++page) {
    EXPECT_TRUE(seen[page].result.status.ok());
    EXPECT_EQ(once.first_of(page), std::byte(0x11 * (page + 1)));
  }
  Bench always({{FaultKind::corrupt_read, 0, kFromThenOn}}, true);
  const auto bad = always.read();
  EXPECT_EQ(bad[1].result.status.code, Code::io_error);
  EXPECT_NE(bad[1].result.status.message.find("the page at 4096 is not what was written to it"), std::string::npos);
}

TEST(FaultyMachine, a_launch_that_fails_does_not_run_and_a_dead_unit_stays_dead_until_it_is_replaced) {
  Bench bench({{FaultKind::launch_error, 1}, {FaultKind::unit_dies, 2, kFromThenOn, Picoseconds(0), 0, "cpu0"}});
  EXPECT_TRUE(bench.run().status.ok());
  EXPECT_EQ(bench.run().status.code, Code::unit_lost);
  EXPECT_EQ(bench.function.calls, 1);
  EXPECT_EQ(bench.run().status.code, Code::unit_lost);
  EXPECT_EQ(bench.run().status.message, "cpu0 is gone (a fault on purpose)");
  EXPECT_TRUE(bench.run(1).status.ok()) << "the other one is alive";
  bench.host->heal();
  EXPECT_TRUE(bench.run().status.ok());
}

TEST(FaultyMachine, slow_units_complete_late_and_a_hang_ends_with_the_time_out) {
  Bench slow({{FaultKind::slow_launch, 0, 1, 50 * kRead}}), hot({{FaultKind::throttle, 1, kFromThenOn, 20 * kRead}});
  Bench hung({{FaultKind::unit_hangs, 0, kFromThenOn, 90 * kRead}});
  EXPECT_TRUE(slow.run().status.ok());
  EXPECT_EQ(slow.machine().clock.now(), 51 * kRead);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(hot.run().status.ok());
  EXPECT_EQ(hot.machine().clock.now(), 43 * kRead);
  EXPECT_EQ(hung.run().status.code, Code::unit_lost);
  EXPECT_EQ(hung.machine().clock.now(), 90 * kRead);
}

TEST(FaultyMachine, garbage_is_an_answer_that_there_is_not) {
  Bench bench({{FaultKind::garbage, 0}});
  EXPECT_EQ(std::get<TokenChoice>(bench.run().outcomes.at(0)).tokens, std::vector<std::int32_t>{-8});
  EXPECT_EQ(std::get<TokenChoice>(bench.run().outcomes.at(0)).tokens, std::vector<std::int32_t>{7});
}

TEST(FaultyMachine, memory_runs_short_for_a_while) {
  Bench bench({{FaultKind::lease_error, 0}, {FaultKind::memory_pressure, 1, 1, Picoseconds(0), MiB - kPageSize}});
  Memory& memory = bench.machine().memory;
  EXPECT_EQ(memory.lease(kPageSize, Placement::dram, Region::kv).status().code, Code::over_budget);
  const Result<Lease> refused = memory.lease(2 * kPageSize, Placement::dram, Region::kv);
  EXPECT_EQ(refused.status().code, Code::over_budget);
  EXPECT_EQ(memory.budget(Placement::dram).limit, kPageSize);
  EXPECT_TRUE(memory.lease(2 * kPageSize, Placement::dram, Region::kv).ok());
  EXPECT_EQ(memory.budget(Placement::dram).limit, MiB);
}

TEST(FaultyMachine, its_report_says_what_it_did) {
  Bench bench({{FaultKind::read_error, 0, 2}});
  bench.read();
  EXPECT_EQ(bench.host->report({}, {}).notes.back(), "faults on purpose: 2 read_error");
  Bench beyond({{FaultKind::read_error, 1, 1}, {FaultKind::read_error, 100, 1}, {FaultKind::unit_dies, 0, 1, Picoseconds(0), 0, "npu"}});
  beyond.read();
  EXPECT_EQ(beyond.host->report({}, {}).notes.back(), "faults on purpose: 1 read_error; 2 of 3 entries struck nothing");
}

TEST(FaultyMachine, a_fault_of_a_unit_that_is_not_there_is_refused) {
  try {
    Bench bench({{FaultKind::unit_dies, 0, 1, Picoseconds(0), 0, "gpu"}});
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "faults: unit_dies of unit \"gpu\", which this machine has not (expected one of: cpu0, npu)");
  }
}

}  // namespace
}  // namespace vitro
