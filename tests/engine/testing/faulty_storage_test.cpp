#include "engine/testing/faulty_storage.hpp"

#include <gtest/gtest.h>

#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

class NoFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

struct Seen {
  IoResult result;
  Picoseconds at{0};
};

Task<void> read_one(Storage* storage, FileId file, Bytes length, Lease into, Seen* seen) {
  ReadRequest request{{file, 0, length}, into, 0};
  seen->result = co_await storage->read(std::move(request));
  seen->at = storage->executor().now();
}

// Reads `lengths` one after the other, 1000 ps each, through a storage with the given faults.
std::vector<Seen> read_all(std::vector<Bytes> lengths, FaultyStorage::ReadPlan plan, StorageTotals* totals = nullptr) {
  NoFunction function;
  NullTrace trace;
  VirtualMachineSpec spec;
  spec.phantom = true;
  VirtualMachine host(spec, function, trace);
  FaultyStorage faulty(host.machine().storage, std::move(plan));
  const FileId file = faulty.open_phantom(MiB).value_or_throw();
  const Lease into = host.machine().memory.lease(MiB, Placement::dram, Region::staging).value_or_throw();
  std::vector<Seen> seen(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) host.run(read_one(&faulty, file, lengths[i], into, &seen[i]));
  if (totals != nullptr) *totals = faulty.totals();
  return seen;
}

TEST(FaultyStorage, without_a_fault_it_is_the_storage_behind_it) {
  const std::vector<Seen> seen = read_all({4096}, {});
  EXPECT_TRUE(seen[0].result.status.ok());
  EXPECT_EQ(seen[0].result.done, 4096u);
  EXPECT_EQ(seen[0].at, Picoseconds(1000));
}

TEST(FaultyStorage, a_delay_comes_on_top_of_the_read) {
  const std::vector<Seen> seen = read_all({4096}, [](const ReadRequest&, std::uint64_t) { return IoFault{Picoseconds(250), {}, 0}; });
  EXPECT_TRUE(seen[0].result.status.ok());
  EXPECT_EQ(seen[0].at, Picoseconds(1250));
}

TEST(FaultyStorage, faults_are_planned_by_number_and_name_their_cause) {
  StorageTotals totals;
  const std::vector<Seen> seen = read_all(
      {4096, 4096, 4096},
      [](const ReadRequest&, std::uint64_t n) {
        if (n == 1) return IoFault{Picoseconds(0), {Code::io_error, "bad block"}, 0};
        return IoFault{};
      },
      &totals);
  EXPECT_TRUE(seen[0].result.status.ok());
  EXPECT_EQ(seen[1].result.status.code, Code::io_error);
  EXPECT_EQ(seen[1].result.status.message, "bad block");
  EXPECT_EQ(seen[1].result.done, 0u);
  EXPECT_TRUE(seen[2].result.status.ok());
  EXPECT_EQ(totals.reads, 2u);
}

TEST(FaultyStorage, a_short_read_moves_what_it_says) {
  StorageTotals totals;
  const std::vector<Seen> seen =
      read_all({8192}, [](const ReadRequest&, std::uint64_t) { return IoFault{Picoseconds(0), {Code::short_read, "cut"}, 4096}; }, &totals);
  EXPECT_EQ(seen[0].result.status.code, Code::short_read);
  EXPECT_EQ(seen[0].result.done, 4096u);
  EXPECT_EQ(totals.bytes_read, 4096u);
}

Task<void> write_one(Storage* storage, FileId file, Lease from, IoResult* result) {
  WriteRequest request{{file, 0, 4096}, from, 0};
  *result = co_await storage->write(std::move(request));
}

TEST(FaultyStorage, writes_have_a_plan_of_their_own) {
  NoFunction function;
  NullTrace trace;
  VirtualMachine host({}, function, trace);
  FaultyStorage faulty(host.machine().storage, {},
                       [](const WriteRequest&, std::uint64_t) { return IoFault{Picoseconds(5), {Code::no_space, "full"}, 0}; });
  const FileId file = faulty.open_phantom(MiB).value_or_throw();
  const Lease from = host.machine().memory.lease(4096, Placement::dram, Region::kv).value_or_throw();
  IoResult result;
  host.run(write_one(&faulty, file, from, &result));
  EXPECT_EQ(result.status.code, Code::no_space);
  EXPECT_EQ(host.machine().clock.now(), Picoseconds(5));
}

}  // namespace
}  // namespace vitro
