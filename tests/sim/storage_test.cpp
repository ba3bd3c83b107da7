#include "sim/storage.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/sim/simulation.hpp"
#include "tests/sim/span_trace.hpp"

namespace vitro::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file whose byte i is a function of i.
class PatternFile {
 public:
  explicit PatternFile(std::size_t size) : path_(testing::TempDir() + "/vitro_sim_storage_" + std::to_string(::getpid())) {
    OutputFile file(path_);
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = at(i);
    file.write(bytes);
    file.commit();
  }
  ~PatternFile() { std::filesystem::remove(path_); }
  static std::byte at(std::size_t i) { return static_cast<std::byte>(i * 7 + i / 256); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// 1000 cycles to issue, 10 us (sequential: 2 us) of latency, 1 us per 4 KiB.
TEST(SimStorage, a_read_takes_issue_latency_and_transfer) {
  for (const auto& [pattern, latency] : {std::pair(Pattern::random, 10), std::pair(Pattern::sequential, 2)}) {
    Simulation simulation(round_options());
    Machine& machine = simulation.machine();
    IoResult result;
    simulation.run(
        read_into(&machine, read_request(machine, machine.storage.open_phantom(MiB).value_or_throw(), 8192, 4096, pattern), &result));
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.done, 4096u);
    EXPECT_EQ(simulation.now(), kUs + latency * kUs + kUs);
  }
}

TEST(SimStorage, an_unaligned_read_moves_its_aligned_cover_and_delivers_its_bytes) {
  const PatternFile file(100'000);
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  ReadRequest request = read_request(machine, machine.storage.open(file.path()).value_or_throw(), 4000, 5000);
  const Lease into = request.into;
  IoResult result;
  simulation.run(read_into(&machine, std::move(request), &result));
  EXPECT_EQ(result.done, 5000u);
  EXPECT_EQ(machine.storage.totals().bytes_read, 3 * 4096u);
  EXPECT_EQ(machine.storage.totals().reads, 1u);
  for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(into.data()[i], PatternFile::at(4000 + i)) << i;
}

TEST(SimStorage, a_large_read_is_several_commands) {
  const PatternFile file(200'000);
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  ReadRequest request = read_request(machine, machine.storage.open(file.path()).value_or_throw(), 0, 200'000);
  const Lease into = request.into;
  IoResult result;
  simulation.run(read_into(&machine, std::move(request), &result));
  EXPECT_EQ(std::memcmp(into.data() + 199'000, std::vector<std::byte>{PatternFile::at(199'000)}.data(), 1), 0);
  // Four commands issued in 4 us; the first waits for 10 us, then 49 pages go through back to back.
  EXPECT_EQ(simulation.now(), kUs + 10 * kUs + 49 * kUs);
}

TEST(SimStorage, a_read_past_the_end_is_an_answer) {
  const PatternFile file(5000);
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  IoResult result;
  simulation.run(read_into(&machine, read_request(machine, machine.storage.open(file.path()).value_or_throw(), 4096, 4096), &result));
  EXPECT_EQ(result.status.code, Code::short_read);
  EXPECT_THAT(result.status.message, AllOf(HasSubstr(file.path()), HasSubstr("4096")));
  EXPECT_EQ(result.done, 0u);
}

TEST(SimStorage, a_file_that_shrinks_is_an_answer) {
  const PatternFile file(50'000);
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  const FileId id = machine.storage.open(file.path()).value_or_throw();
  std::filesystem::resize_file(file.path(), 100);
  IoResult result;
  simulation.run(read_into(&machine, read_request(machine, id, 4096, 4096), &result));
  EXPECT_EQ(result.status.code, Code::io_error);
}

Task<void> write_and_read_back(Machine* machine, FileId file, Lease from, Lease into, std::vector<IoResult>* results) {
  WriteRequest write;
  write.to = {file, 8192, 4096};
  write.from = from;
  results->push_back(co_await machine->storage.write(std::move(write)));
  ReadRequest read;
  read.from = {file, 8192, 4096};
  read.into = into;
  results->push_back(co_await machine->storage.read(std::move(read)));
}

TEST(SimStorage, a_scratch_file_in_a_folder_that_is_not_there_is_refused) {
  SimOptions options = round_options({});
  options.scratch_folder = "/no such folder";
  Simulation simulation(std::move(options));
  const Result<FileId> file = simulation.machine().storage.create_scratch(MiB);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code, Code::no_space);
  EXPECT_TRUE(file.status().message.starts_with("/no such folder: no scratch file of 1.00 MiB: ")) << file.status().message;
}

TEST(SimStorage, a_scratch_file_gives_back_what_was_written) {
  Simulation simulation(round_options({"ufs.latency_write=20 us"}));
  Machine& machine = simulation.machine();
  const Lease from = machine.memory.lease(4096, Placement::dram, Region::kv).value_or_throw();
  const Lease into = machine.memory.lease(4096, Placement::dram, Region::kv).value_or_throw();
  std::memset(from.data(), 42, 4096);
  std::vector<IoResult> results;
  simulation.run(write_and_read_back(&machine, machine.storage.create_scratch(MiB).value_or_throw(), from, into, &results));
  EXPECT_TRUE(results[0].status.ok() && results[1].status.ok());
  EXPECT_EQ(std::memcmp(from.data(), into.data(), 4096), 0);
  EXPECT_EQ(simulation.now(), (1 + 20 + 2) * kUs + (1 + 10 + 1) * kUs);
  EXPECT_EQ(machine.storage.totals().bytes_written, 4096u);
}

TEST(SimStorage, a_file_opened_for_reading_can_not_be_written) {
  const PatternFile file(50'000);
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  const Lease lease = machine.memory.lease(4096, Placement::dram, Region::kv).value_or_throw();
  std::vector<IoResult> results;
  simulation.run(write_and_read_back(&machine, machine.storage.open(file.path()).value_or_throw(), lease, lease, &results));
  EXPECT_EQ(results[0].status.code, Code::io_error);
}

// The issuing core loses 1 us per command to the driver; the other does not.
TEST(SimStorage, issuing_takes_time_from_the_core_that_does_it) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  const FileId file = machine.storage.open_phantom(MiB).value_or_throw();
  std::vector<Picoseconds> ends;
  simulation.function.effect = [&](const KernelCall&) { ends.push_back(machine.clock.now()); };
  IoResult a, b;
  std::vector<Task<void>> tasks;
  tasks.push_back(run_chain(machine.units[0], {test_call(20'000, 0)}));
  tasks.push_back(run_chain(machine.units[1], {test_call(20'000, 0)}));
  tasks.push_back(read_into(&machine, read_request(machine, file, 0, 4096, Pattern::random, UnitId{1}), &a));
  tasks.push_back(read_into(&machine, read_request(machine, file, 4096, 4096, Pattern::random, UnitId{1}), &b));
  simulation.run(together(&machine, std::move(tasks)));
  EXPECT_THAT(ends, ElementsAre(20 * kUs, 22 * kUs));
}

Task<void> fault_then_run(Machine* machine, FileId file, std::vector<Picoseconds>* log) {
  ReadRequest request = read_request(*machine, file, 0, 4096);
  request.page_fault = PageFault::waits;
  IoResult result;
  co_await read_into(machine, std::move(request), &result);
  log->push_back(machine->clock.now());
  Chain chain{test_call(2000, 0, 1)};
  co_await run_chain(machine->units[0], std::move(chain));
  log->push_back(machine->clock.now());
}

TEST(SimStorage, a_page_fault_keeps_its_core_from_everything_else) {
  Simulation simulation(round_options({"core.wake_up=5 us"}));
  Machine& machine = simulation.machine();
  std::vector<Picoseconds> log, ends;
  simulation.function.effect = [&](const KernelCall&) { ends.push_back(machine.clock.now()); };
  std::vector<Task<void>> tasks;
  tasks.push_back(fault_then_run(&machine, machine.storage.open_phantom(MiB).value_or_throw(), &log));
  tasks.push_back(run_chain(machine.units[0], {test_call(1000, 0, 2)}));
  tasks.push_back(run_chain(machine.units[1], {test_call(1000, 0, 3)}));
  simulation.run(together(&machine, std::move(tasks)));
  // 12 us of fault, of which 1 us in the driver, when the policy can not run: it shares core 0. Core 1 then wakes up and
  // computes meanwhile; core 0's own call waits for the page.
  EXPECT_EQ(simulation.function.tags, (std::vector<std::uint32_t>{3, 2, 1}));
  EXPECT_EQ(ends[0], 7 * kUs);
  EXPECT_EQ(ends[1], 13 * kUs);
  EXPECT_THAT(log, ElementsAre(12 * kUs, 15 * kUs));  // behind the queued call, and awake: no wake-up
  const MachineReport report = simulation.host().report(Picoseconds(0), 12 * kUs);
  EXPECT_DOUBLE_EQ(*report.io_share, 11.0 / 12);  // a core that waits for a page is idle
}

// 3 pages of 1000 cycles at 1 GHz before the driver is asked; the other core and the policy go on.
TEST(SimStorage, a_mapped_page_costs_the_core_that_faults_and_no_other) {
  Picoseconds without{0};
  for (const bool costs : {false, true}) {
    SpanTrace trace;
    Simulation simulation(costs ? round_options({"cpu.mapped_page_cycles=1000"}) : round_options(), &trace);
    Machine& machine = simulation.machine();
    const FileId file = machine.storage.open_phantom(MiB).value_or_throw();
    std::vector<Picoseconds> ends;
    simulation.function.effect = [&](const KernelCall&) { ends.push_back(machine.clock.now()); };
    ReadRequest fault = read_request(machine, file, 0, 3 * 4096, Pattern::random, UnitId{0});
    ReadRequest read = read_request(machine, file, MiB / 2, 4096, Pattern::random, UnitId{1});
    fault.page_fault = PageFault::waits;
    IoResult a, b;
    std::vector<Task<void>> tasks;
    tasks.push_back(read_into(&machine, std::move(fault), &a));
    tasks.push_back(run_chain(machine.units[1], {test_call(2000, 0)}));
    simulation.run(together(&machine, std::move(tasks)));
    EXPECT_TRUE(a.status.ok());
    EXPECT_EQ(ends, (std::vector<Picoseconds>{costs ? 2 * kUs : 3 * kUs})) << "the policy runs while core 0 handles its fault";
    if (!costs) without = simulation.now();
    EXPECT_EQ(simulation.now(), without + (costs ? 3 : 0) * kUs);
    std::vector<Written> faults;
    std::copy_if(trace.spans.begin(), trace.spans.end(), std::back_inserter(faults),
                 [](const Written& span) { return span.name == "page_fault"; });
    ASSERT_EQ(faults.size(), costs ? 1u : 0u);
    for (const Written& each : faults) {
      EXPECT_EQ(each.track, "units/cpu0");
      EXPECT_EQ(each.end - each.begin, 3 * kUs);
    }
    const Picoseconds begin = simulation.now();
    simulation.run(read_into(&machine, std::move(read), &b));
    EXPECT_EQ(simulation.now() - begin, 12 * kUs) << "a read that nobody faulted for costs no page";
  }
}

// As long as pages take, and the issuing: then the core computes while the data comes.
TEST(SimStorage, a_core_that_reads_ahead_computes_while_the_data_comes) {
  for (const bool costs : {false, true}) {
    Simulation simulation(costs ? round_options({"cpu.mapped_page_cycles=1000"}) : round_options());
    Machine& machine = simulation.machine();
    const FileId file = machine.storage.open_phantom(MiB).value_or_throw();
    Picoseconds computed{0};
    simulation.function.effect = [&](const KernelCall&) { computed = machine.clock.now(); };
    ReadRequest read = read_request(machine, file, 0, 3 * 4096, Pattern::random, UnitId{0});
    read.page_fault = PageFault::goes_on;
    IoResult result;
    std::vector<Task<void>> tasks;
    tasks.push_back(read_into(&machine, std::move(read), &result));
    tasks.push_back(run_chain(machine.units[0], {test_call(2000, 0)}));
    simulation.run(together(&machine, std::move(tasks)));
    EXPECT_TRUE(result.status.ok());
    EXPECT_GE(computed, (costs ? 3 + 2 : 2) * kUs);
    EXPECT_LT(computed, simulation.now()) << "the data was still on its way";
  }
}

TEST(SimStorage, phantom_files_have_timing_and_no_bytes) {
  SimOptions options = round_options();
  options.phantom = true;
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  IoResult result;
  simulation.run(
      read_into(&machine, read_request(machine, machine.storage.open_phantom(GiB * 100).value_or_throw(), 99 * GiB, 4096), &result));
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(simulation.now(), 12 * kUs);
  EXPECT_TRUE(machine.storage.create_scratch(GiB * 1000).ok());
}

}  // namespace
}  // namespace vitro::sim
