#include "engine/machine/vector_read.hpp"

#include "engine/testing/faulty_storage.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "tests/engine/machine/vector_read_laws.hpp"

namespace vitro {
namespace {

class NoFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

// A virtual machine, behind a faulty storage where there is a plan.
class VirtualUnderTest final : public MachineUnderTest {
 public:
  explicit VirtualUnderTest(VirtualMachineSpec spec = {}, FaultyStorage::ReadPlan faults = {}) : host_(with_unit(spec), function_, trace_) {
    const Machine& m = host_.machine();
    if (faults) faulty_.emplace(m.storage, std::move(faults));
    machine_.emplace(
        Machine{m.executor, m.clock, m.units, faulty_ ? static_cast<Storage&>(*faulty_) : m.storage, m.memory, m.trace, m.seed});
  }
  Machine& machine() override { return *machine_; }
  void run(Task<void> task) override { host_.run(std::move(task)); }

 private:
  static VirtualMachineSpec with_unit(VirtualMachineSpec spec) {
    spec.units.resize(1);
    return spec;
  }
  NoFunction function_;
  NullTrace trace_;
  VirtualMachine host_;
  std::optional<FaultyStorage> faulty_;
  std::optional<Machine> machine_;
};

std::unique_ptr<MachineUnderTest> make_virtual() { return std::make_unique<VirtualUnderTest>(); }

// Every third read is late, in any order.
std::unique_ptr<MachineUnderTest> make_delayed() {
  return std::make_unique<VirtualUnderTest>(VirtualMachineSpec(), [](const ReadRequest&, std::uint64_t n) {
    return IoFault{Picoseconds(n % 3 == 0 ? 7919 * static_cast<std::int64_t>(n % 11) : 0), {}, 0};
  });
}

std::unique_ptr<MachineUnderTest> make_shuffled() {
  VirtualMachineSpec spec;
  spec.shuffle = 9;
  spec.read_price = [](const ReadRequest& read) { return Picoseconds(static_cast<std::int64_t>(read.from.offset % 3) * 500); };
  return std::make_unique<VirtualUnderTest>(spec);
}

INSTANTIATE_TEST_SUITE_P(Machines, VectorReadLaws,
                         testing::Values(StorageUnderTest{"virtual_machine", make_virtual}, StorageUnderTest{"delayed", make_delayed},
                                         StorageUnderTest{"shuffled", make_shuffled}),
                         [](const auto& info) { return info.param.name; });

// Reads of one file that never existed; request i takes prices[i] picoseconds, one behind the other.
struct Priced {
  explicit Priced(std::vector<std::int64_t> prices, std::optional<std::uint64_t> shuffle = {}, FaultyStorage::ReadPlan faults = {})
      : test(spec_of(prices, shuffle), std::move(faults)) {
    const FileId file = test.machine().storage.open_phantom(MiB).value_or_throw();
    const Lease into = test.machine().memory.lease(kPageSize, Placement::dram, Region::staging).value_or_throw();
    for (Bytes i = 0; i < prices.size(); ++i) requests.push_back({{file, i, 64}, into, 0});
  }
  static VirtualMachineSpec spec_of(std::vector<std::int64_t> prices, std::optional<std::uint64_t> shuffle) {
    VirtualMachineSpec spec;
    spec.phantom = true;
    spec.shuffle = shuffle;
    spec.read_price = [prices](const ReadRequest& read) { return Picoseconds(prices.at(read.from.offset)); };
    spec.price = [](const UnitCaps&, const KernelCall& call) { return Picoseconds(call.slice.first); };
    return spec;
  }

  VirtualUnderTest test;
  std::vector<ReadRequest> requests;
};

using Groups = std::vector<std::pair<std::int64_t, std::vector<std::uint32_t>>>;  // time, indices

Groups seen(const GroupsTaken& taken) {
  Groups groups;
  for (std::size_t i = 0; i < taken.groups.size(); ++i) {
    groups.push_back({taken.at[i].count(), {}});
    for (const ReadCompletion& done : taken.groups[i]) groups.back().second.push_back(done.index);
  }
  return groups;
}

Groups groups_of(Priced& priced, std::size_t at_least = 1) {
  GroupsTaken taken;
  priced.test.run(take_groups(&priced.test.machine(), priced.requests, at_least, &taken));
  results_of(taken, priced.requests.size());
  return seen(taken);
}

TEST(VectorRead, completions_of_one_time_are_one_group_whatever_the_order_of_events) {
  const Groups expected{{1000, {0, 1, 2}}, {1500, {3}}, {2500, {4, 5}}};
  Priced plain({1000, 0, 0, 500, 1000, 0});
  EXPECT_EQ(groups_of(plain), expected);
  for (std::uint64_t shuffle = 1; shuffle <= 20; ++shuffle) {
    Priced shuffled({1000, 0, 0, 500, 1000, 0}, shuffle);
    EXPECT_EQ(groups_of(shuffled), expected) << shuffle;
  }
}

TEST(VectorRead, a_group_stands_in_the_order_of_the_vector_whichever_completed_first) {
  // The first is late until the last is there.
  Priced priced({1000, 1000, 1000}, {}, [](const ReadRequest&, std::uint64_t n) { return IoFault{Picoseconds(n == 0 ? 2000 : 0), {}, 0}; });
  EXPECT_EQ(groups_of(priced), (Groups{{2000, {1}}, {3000, {0, 2}}}));
}

TEST(VectorRead, whoever_waits_for_more_wakes_up_when_they_are_there) {
  Priced two({1000, 1000, 1000, 1000, 1000});
  EXPECT_EQ(groups_of(two, 2), (Groups{{2000, {0, 1}}, {4000, {2, 3}}, {5000, {4}}}));
  Priced all({1000, 1000, 1000});
  EXPECT_EQ(groups_of(all, 100), (Groups{{3000, {0, 1, 2}}}));
}

// Reads what arrives, and computes for `work` on each group.
Task<void> compute_on_each(Machine* machine, std::vector<ReadRequest> requests, std::uint32_t work, GroupsTaken* taken) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  while (const VectorRead::Group* group = co_await read.next()) {
    taken->groups.push_back(*group);
    taken->at.push_back(machine->clock.now());
    KernelCall call;
    call.slice.first = work;
    co_await machine->units[0]->run(std::move(call));
  }
}

// Reads end at 1000, 2000, 3000 and 4000. Work on the first group lasts until one tick before the third end, then until that.
TEST(VectorRead, a_group_is_worked_on_while_others_are_in_flight) {
  for (const bool on_time : {false, true}) {
    Priced priced({1000, 1000, 1000, 1000});
    GroupsTaken taken;
    priced.test.run(compute_on_each(&priced.test.machine(), priced.requests, on_time ? 2000 : 1999, &taken));
    const Groups early{{1000, {0}}, {2999, {1}}, {4998, {2, 3}}}, exact{{1000, {0}}, {3000, {1, 2}}, {5000, {3}}};
    EXPECT_EQ(seen(taken), on_time ? exact : early);
  }
}

Task<void> submit_then_wait(Machine* machine, std::vector<ReadRequest> requests, Picoseconds until, GroupsTaken* taken) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  EXPECT_EQ(machine->storage.totals().reads, read.requests().size()) << "submitted before anybody waits";
  co_await sleep_until(machine->executor, until);
  while (const VectorRead::Group* group = co_await read.next()) {
    taken->groups.push_back(*group);
    taken->at.push_back(machine->clock.now());
  }
}

TEST(VectorRead, it_is_submitted_at_once_and_what_is_there_needs_no_waiting) {
  Priced priced({1000, 1000, 1000});
  GroupsTaken taken;
  priced.test.run(submit_then_wait(&priced.test.machine(), priced.requests, Picoseconds(2500), &taken));
  EXPECT_EQ(seen(taken), (Groups{{2500, {0, 1}}, {3000, {2}}}));
}

TEST(VectorRead, faults_are_planned_for_each_request_and_the_others_bring_what_they_should) {
  Priced priced({1000, 1000, 1000, 1000}, {}, [](const ReadRequest&, std::uint64_t n) {
    if (n == 1) return IoFault{Picoseconds(250), {Code::io_error, "bad block"}, 0};
    if (n == 2) return IoFault{Picoseconds(100), {Code::short_read, "cut"}, 16};
    return IoFault{};
  });
  GroupsTaken taken;
  priced.test.run(take_groups(&priced.test.machine(), priced.requests, 1, &taken));
  const std::vector<IoResult> results = results_of(taken, 4);
  // Nothing moves for the second, so the device serves three.
  EXPECT_EQ(seen(taken), (Groups{{250, {1}}, {1000, {0}}, {2100, {2}}, {3000, {3}}}));
  EXPECT_EQ(priced.test.machine().storage.totals().reads, 3u);
  EXPECT_EQ(results[1].status.message, "bad block");
  EXPECT_EQ(results[1].done, 0u);
  EXPECT_EQ(results[2].status.code, Code::short_read);
  EXPECT_EQ(results[2].done, 16u);
  EXPECT_TRUE(results[0].status.ok() && results[3].status.ok());
}

Task<void> drop_after(Machine* machine, std::vector<ReadRequest> requests, int groups) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  for (int i = 0; i < groups; ++i) co_await read.next();
}

TEST(VectorReadDeathTest, it_must_not_die_before_its_groups_were_taken) {
  for (const int groups : {0, 1}) {
    Priced priced({1000, 1000});
    EXPECT_DEATH(priced.test.run(drop_after(&priced.test.machine(), priced.requests, groups)), "before all of its groups were taken");
  }
  Priced priced({1000, 1000});
  priced.test.run(drop_after(&priced.test.machine(), priced.requests, 2));
}

Task<void> drop_complete(Machine* machine, std::vector<ReadRequest> requests) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  co_await sleep_until(machine->executor, Picoseconds(1'000'000));
}

TEST(VectorReadDeathTest, results_that_nobody_looked_at_are_no_less_a_bug_than_reads_in_flight) {
  Priced priced({1000, 1000});
  EXPECT_DEATH(priced.test.run(drop_complete(&priced.test.machine(), priced.requests)), "before all of its groups were taken");
}

Task<void> wait_for(VectorRead* read) { co_await read->rest(); }

Task<void> wait_twice(Machine* machine, std::vector<ReadRequest> requests) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  TaskScope scope(machine->executor);
  scope.spawn(wait_for(&read));
  scope.spawn(wait_for(&read));
  co_await scope.join();
}

TEST(VectorReadDeathTest, one_coroutine_waits_at_a_time) {
  Priced priced({1000, 1000});
  EXPECT_DEATH(priced.test.run(wait_twice(&priced.test.machine(), priced.requests)), "two coroutines wait for one vector read");
}

TEST(VectorReadDeathTest, a_page_fault_is_a_read_of_its_own) {
  Priced priced({1000, 1000});
  priced.requests[1].page_fault = PageFault::waits;
  EXPECT_DEATH(groups_of(priced), "a page fault in a vector read");
}

}  // namespace
}  // namespace vitro
