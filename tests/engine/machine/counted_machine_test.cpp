#include "engine/machine/counted_machine.hpp"

#include <gtest/gtest.h>

#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

class NoFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

Task<void> some_of_each(Machine* machine, FileId file, Lease memory) {
  Chain chain(3);
  co_await machine->units[0]->run(std::move(chain));
  GraphSpec spec;
  spec.calls.resize(2);
  const Graph graph = (co_await machine->units[1]->load(std::move(spec))).value_or_throw();
  for (int i = 0; i < 2; ++i) co_await machine->units[1]->launch(graph, {});
  machine->units[1]->unload(graph);

  ReadRequest read{{file, 0, kPageSize}, memory, 0};
  std::vector<ReadRequest> five(5, read);
  co_await machine->storage.read(std::move(read));
  WriteRequest write{{file, 0, kPageSize}, memory, 0};
  co_await machine->storage.write(std::move(write));
  VectorRead vector = machine->storage.read_many(std::move(five));
  co_await vector.rest();
  VectorRead nothing = machine->storage.read_many({});
  EXPECT_EQ(co_await nothing.next(), nullptr);
}

struct Outside {
  SubmissionCounts counts;
  Picoseconds end{0};
  StorageTotals totals;
};

Outside carry_out(bool counted) {
  NoFunction function;
  NullTrace trace;
  VirtualMachineSpec spec;
  spec.units.resize(2);
  VirtualMachine host(spec, function, trace);
  CountedMachine counting(host.machine());
  Machine& machine = counted ? counting.machine() : host.machine();
  const FileId file = machine.storage.create_scratch(MiB).value_or_throw();
  host.run(some_of_each(&machine, file, machine.memory.lease(kPageSize, Placement::dram, Region::staging).value_or_throw()));
  return {counting.counts(), machine.clock.now(), machine.storage.totals()};
}

TEST(CountedMachine, a_chain_a_launch_and_a_vector_read_are_one_submission_each) {
  const Outside outside = carry_out(true);
  EXPECT_EQ(outside.counts.unit_submissions, 3u);  // one run, two launches; loading is none
  EXPECT_EQ(outside.counts.storage_submissions, 3u);
  EXPECT_EQ(outside.totals.reads, 6u);
}

TEST(CountedMachine, counting_changes_nothing) {
  const Outside with = carry_out(true), without = carry_out(false);
  EXPECT_EQ(without.counts.unit_submissions + without.counts.storage_submissions, 0u);
  EXPECT_EQ(with.end, without.end);
  EXPECT_EQ(with.totals.reads, without.totals.reads);
  EXPECT_EQ(with.totals.bytes_written, without.totals.bytes_written);
}

}  // namespace
}  // namespace vitro
