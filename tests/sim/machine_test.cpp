#include "sim/machine.hpp"

#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

Task<void> run_call(ComputeUnit* unit, KernelCall call) {
  const RunResult result = co_await unit->run(std::move(call));
  result.status.or_throw();
}

Task<void> run_chain(ComputeUnit* unit, Chain chain) {
  const RunResult result = co_await unit->run(std::move(chain));
  result.status.or_throw();
}

Task<void> side_by_side(Machine* machine, std::vector<Chain> chains) {
  TaskScope scope(machine->executor);
  for (std::size_t i = 0; i < chains.size(); ++i) scope.spawn(run_chain(machine->units[i], chains[i]));
  co_await scope.join();
}

TEST(SimMachine, a_call_takes_the_longer_of_arithmetic_and_memory) {
  Simulation compute(round_options());
  compute.run(run_call(compute.machine().units[0], test_call(50'000, 1000)));
  EXPECT_EQ(compute.now(), 50 * kUs);

  Simulation memory(round_options());
  memory.run(run_call(memory.machine().units[0], test_call(1000, 100'000)));
  EXPECT_EQ(memory.now(), 10 * kUs);
}

TEST(SimMachine, a_chain_pays_for_the_hand_off_once_and_for_each_call) {
  SimOptions options = round_options({"core.wake_up=5 us", "core.hand_back=1 us", "core.call_overhead=500 ns"});
  Simulation simulation(options);
  simulation.run(run_chain(simulation.machine().units[0], {test_call(2000, 0), test_call(3000, 0)}));
  EXPECT_EQ(simulation.now(), 5 * kUs + (2 * kUs + 500 * kNs) + (3 * kUs + 500 * kNs) + 1 * kUs);
}

// Two streams of 80 KB share 16 GB/s: 8 GB/s each while both run (10 us); alone, one would take 8 us.
TEST(SimMachine, two_cores_share_the_bandwidth_of_their_port) {
  Simulation simulation(round_options());
  simulation.run(side_by_side(&simulation.machine(), {{test_call(0, 80'000)}, {test_call(0, 80'000)}}));
  EXPECT_EQ(simulation.now(), 10 * kUs);
}

// 40 KB + 80 KB: both at 8 GB/s for 5 us, then the other 40 KB at 10 GB/s in 4 us.
TEST(SimMachine, a_flow_speeds_up_when_another_ends) {
  Simulation simulation(round_options());
  simulation.run(side_by_side(&simulation.machine(), {{test_call(0, 40'000)}, {test_call(0, 80'000)}}));
  EXPECT_EQ(simulation.now(), 9 * kUs);
}

Task<void> read_into(Machine* machine, ReadRequest request, IoResult* result) {
  *result = co_await machine->storage.read(std::move(request));
}

ReadRequest request_of(Machine& machine, FileId file, Bytes offset, Bytes length, Pattern pattern = Pattern::random) {
  ReadRequest request;
  request.from = {file, offset, length};
  request.into = machine.memory.lease(length, Placement::dram, Region::staging).value_or_throw();
  request.pattern = pattern;
  return request;
}

// 1000 cycles to issue, 10 us latency, 4096 B at 4.096 GB/s.
TEST(SimMachine, one_random_read_takes_issue_latency_and_transfer) {
  Simulation simulation(round_options());
  Machine& machine = simulation.machine();
  const FileId file = machine.storage.open_phantom(MiB).value_or_throw();
  IoResult result;
  simulation.run(read_into(&machine, request_of(machine, file, 8192, 4096), &result));
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.done, 4096u);
  EXPECT_EQ(simulation.now(), 1 * kUs + 10 * kUs + 1 * kUs);
  EXPECT_EQ(machine.storage.totals().bytes_read, 4096u);
}

}  // namespace
}  // namespace vitro::sim
