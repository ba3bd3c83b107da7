// The laws of VectorRead on the simulated storage, and its times.
#include "tests/engine/machine/vector_read_laws.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

class SimUnderTest final : public MachineUnderTest {
 public:
  explicit SimUnderTest(SimOptions options) : simulation_(std::move(options)) {}
  Machine& machine() override { return simulation_.machine(); }
  void run(Task<void> task) override { simulation_.run(std::move(task)); }

 private:
  Simulation simulation_;
};

SimOptions shuffled(SimOptions options) {
  options.shuffle = 17;
  return options;
}

StorageUnderTest device(std::string name, std::function<SimOptions()> options) {
  return {std::move(name), [options = std::move(options)] { return std::make_unique<SimUnderTest>(options()); }};
}

INSTANTIATE_TEST_SUITE_P(Devices, VectorReadLaws,
                         testing::Values(device("round_numbers", [] { return round_options(); }),
                                         device("round_numbers_shuffled", [] { return shuffled(round_options()); }),
                                         device("oneplus12", [] { return oneplus12_options(); })),
                         [](const auto& info) { return info.param.name; });

std::vector<ReadRequest> pages(Machine& machine, std::vector<Bytes> offsets, UnitId issuer = UnitId{0}) {
  const FileId file = machine.storage.open_phantom(MiB).value_or_throw();
  std::vector<ReadRequest> requests;
  for (const Bytes offset : offsets) requests.push_back(read_request(machine, file, offset, kPageSize, Pattern::random, issuer));
  return requests;
}

using Groups = std::vector<std::pair<Picoseconds, std::vector<std::uint32_t>>>;

Groups seen(const GroupsTaken& taken) {
  Groups groups;
  for (std::size_t i = 0; i < taken.groups.size(); ++i) {
    groups.push_back({taken.at[i], {}});
    for (const ReadCompletion& done : taken.groups[i]) groups.back().second.push_back(done.index);
  }
  return groups;
}

std::uint64_t count_of(Simulation& simulation, std::string_view what) {
  const MachineReport report = simulation.host().report(Picoseconds(0), Picoseconds(0));
  for (const auto& [name, count] : report.counts) {
    if (name == what) return count;
  }
  ADD_FAILURE() << "nothing counts " << what;
  return 0;
}

// Issued by core 0 at 1, 2 and 3 us, 10 us of latency each, then 1 us through the link one after the other.
TEST(SimVectorRead, its_reads_take_the_times_of_single_reads) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  GroupsTaken taken;
  simulation.run(take_groups(&machine, pages(machine, {0, 40960, 81920}), 1, &taken));
  EXPECT_EQ(seen(taken), (Groups{{12 * kUs, {0}}, {13 * kUs, {1}}, {14 * kUs, {2}}}));
  EXPECT_EQ(*simulation.host().report(Picoseconds(0), 28 * kUs).io_share, 0.5) << "outstanding from its submission to its last completion";

  Simulation apart(round_options());
  std::vector<Task<void>> tasks;
  std::vector<IoResult> results(3);
  std::vector<ReadRequest> requests = pages(apart.machine(), {0, 40960, 81920});
  for (std::size_t i = 0; i < 3; ++i) tasks.push_back(read_into(&apart.machine(), std::move(requests[i]), &results[i]));
  apart.run(together(&apart.machine(), std::move(tasks)));
  EXPECT_EQ(apart.now(), simulation.now());
}

// The task, and one coroutine for each group.
TEST(SimVectorRead, a_group_is_one_event) {
  for (const auto& [at_least, groups] : {std::pair(1, 3), std::pair(2, 2), std::pair(3, 1)}) {
    Simulation simulation(round_options());
    Machine& machine = simulation.machine();
    GroupsTaken taken;
    simulation.run(take_groups(&machine, pages(machine, {0, 40960, 81920}), static_cast<std::size_t>(at_least), &taken));
    EXPECT_EQ(taken.groups.size(), static_cast<std::size_t>(groups));
    EXPECT_EQ(count_of(simulation, "posts"), 1u + static_cast<std::uint64_t>(groups));
    EXPECT_EQ(count_of(simulation, "reads"), 3u);
  }
}

// All are there when the last one is, which comes when it would come by itself. A map page is fetched first: both have it by then.
TEST(SimVectorRead, reads_that_are_wanted_together_end_when_the_last_would) {
  std::uint64_t events = 0;
  for (const Delivery delivery : {Delivery::as_they_come, Delivery::together}) {
    Simulation simulation(round_options());
    Machine& machine = simulation.machine();
    GroupsTaken taken;
    simulation.run(take_all(&machine, pages(machine, {0, 40960, 81920}), delivery, &taken));
    EXPECT_EQ(seen(taken), (Groups{{14 * kUs, {0, 1, 2}}}));
    EXPECT_EQ(*simulation.host().report(Picoseconds(0), 28 * kUs).io_share, 0.5);
    EXPECT_EQ(count_of(simulation, "reads"), 3u);
    if (delivery == Delivery::as_they_come) {
      events = count_of(simulation, "events");
    } else {
      EXPECT_LT(count_of(simulation, "events"), events);
    }
  }
}

// Each fills the link for as long as several pages take to get ready.
TEST(SimVectorRead, large_reads_that_are_wanted_together_end_with_the_last_single_one) {
  Picoseconds alone{};
  for (const Delivery delivery : {Delivery::as_they_come, Delivery::together}) {
    Simulation simulation(oneplus12_options());
    Machine& machine = simulation.machine();
    const FileId file = machine.storage.open_phantom(64 * MiB).value_or_throw();
    std::vector<ReadRequest> requests;
    for (const Bytes length : {512 * KiB, Bytes{4096}, 512 * KiB, 256 * KiB, Bytes{8192}, 512 * KiB}) {
      requests.push_back(read_request(machine, file, requests.size() * 8 * MiB, length, Pattern::random, UnitId{0}));
    }
    GroupsTaken taken;
    simulation.run(take_all(&machine, std::move(requests), delivery, &taken));
    ASSERT_EQ(taken.groups.size(), 1u);
    EXPECT_EQ(taken.groups[0].size(), 6u);
    if (delivery == Delivery::as_they_come) alone = taken.at[0];
    EXPECT_NEAR(to_seconds(taken.at[0]), to_seconds(alone), 0.05 * to_seconds(alone));
  }
}

// Twelve reads are issued until 12 us; the device has eight slots at most.
TEST(SimVectorRead, a_vector_beyond_the_slots_is_there_when_all_of_it_has_come) {
  Simulation simulation(round_options({"ufs.queue_depth=8"}));
  Machine& machine = simulation.machine();
  std::vector<Bytes> offsets;
  for (Bytes i = 0; i < 12; ++i) offsets.push_back(i * 40960 % (960 * KiB));
  GroupsTaken taken;
  simulation.run(take_groups(&machine, pages(machine, offsets), 12, &taken));
  GroupsTaken together;
  Simulation again(round_options({"ufs.queue_depth=8"}));
  again.run(take_all(&again.machine(), pages(again.machine(), offsets), Delivery::together, &together));
  ASSERT_EQ(together.groups.size(), 1u);
  EXPECT_EQ(together.groups[0].size(), 12u);
  EXPECT_GE(together.at[0], taken.at[0]) << "slots come free together";
}

// All of these fail when they are submitted.
TEST(SimVectorRead, completions_of_one_time_are_one_group_whatever_the_order_of_events) {
  for (const bool shuffle : {false, true}) {
    Simulation simulation(shuffle ? shuffled(round_options()) : round_options());
    Machine& machine = simulation.machine();
    GroupsTaken taken;
    simulation.run(take_groups(&machine, pages(machine, {MiB, 2 * MiB, 0, 3 * MiB}), 1, &taken));
    EXPECT_EQ(seen(taken), (Groups{{kUs, {0, 1, 3}}, {12 * kUs, {2}}}));
  }
}

// The policy's core is busy when the first two arrive, at 12 and 13 us: they are one group when it is free again.
Task<void> charge_then_take(Machine* machine, std::vector<ReadRequest> requests, std::uint32_t lookups, GroupsTaken* taken) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  machine->clock.charge(PolicyWork::cache_lookup, lookups);
  while (const VectorRead::Group* group = co_await read.next()) {
    taken->groups.push_back(*group);
    taken->at.push_back(machine->clock.now());
  }
}

TEST(SimVectorRead, a_policy_that_is_busy_finds_all_that_came_meanwhile) {
  // 100 cycles each at 1 GHz, behind 3 us of issuing: until 12.9 us, then until 13.
  for (const std::uint32_t lookups : {99u, 100u}) {
    Simulation simulation(round_options());
    Machine& machine = simulation.machine();
    GroupsTaken taken;
    simulation.run(charge_then_take(&machine, pages(machine, {0, 40960, 81920}), lookups, &taken));
    const Groups early{{12'900 * kNs, {0}}, {13 * kUs, {1}}, {14 * kUs, {2}}}, exact{{13 * kUs, {0, 1}}, {14 * kUs, {2}}};
    EXPECT_EQ(seen(taken), lookups == 99 ? early : exact);
  }
}

struct Run {
  std::string hash;
  Groups groups;
  friend bool operator==(const Run&, const Run&) = default;
};

Run random_run(std::uint64_t seed) {
  Simulation simulation(oneplus12_options());
  Machine& machine = simulation.machine();
  Rng rng(seed);
  std::vector<Bytes> offsets;
  for (int i = 0; i < 100; ++i) offsets.push_back(rng.below(255) * kPageSize);
  GroupsTaken taken;
  if (rng.below(2) == 0) {
    simulation.run(take_groups(&machine, pages(machine, offsets, UnitId(rng.below(4))), 1 + rng.below(5), &taken));
  } else {
    simulation.run(take_all(&machine, pages(machine, offsets, UnitId(rng.below(4))), Delivery::together, &taken));
  }
  return {simulation.host().report(Picoseconds(0), simulation.now()).event_hash, seen(taken)};
}

TEST(SimVectorRead, one_seed_one_result) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) EXPECT_EQ(random_run(seed), random_run(seed));
  EXPECT_NE(random_run(1).hash, random_run(2).hash);
}

}  // namespace
}  // namespace vitro::sim
