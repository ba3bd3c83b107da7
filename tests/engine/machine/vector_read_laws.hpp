// The laws of VectorRead that hold on every storage. A test binary includes this once and instantiates VectorReadLaws with its machines.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/file.hpp"
#include "engine/base/rng.hpp"
#include "engine/machine/machine.hpp"

namespace vitro {

class MachineUnderTest {
 public:
  virtual ~MachineUnderTest() = default;
  virtual Machine& machine() = 0;
  virtual void run(Task<void> task) = 0;
};

struct StorageUnderTest {
  std::string name;
  std::function<std::unique_ptr<MachineUnderTest>()> make;
};
inline void PrintTo(const StorageUnderTest& storage, std::ostream* out) { *out << storage.name; }

// What a coroutine saw of a vector read.
struct GroupsTaken {
  std::vector<VectorRead::Group> groups;
  std::vector<Picoseconds> at;
};

inline Task<void> take_groups(Machine* machine, std::vector<ReadRequest> requests, std::size_t at_least, GroupsTaken* taken) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  while (const VectorRead::Group* group = co_await read.next(at_least)) {
    taken->groups.push_back(*group);
    taken->at.push_back(machine->clock.now());
  }
}

inline Task<void> take_all(Machine* machine, std::vector<ReadRequest> requests, Delivery delivery, GroupsTaken* taken) {
  VectorRead read = machine->storage.read_many(std::move(requests), delivery);
  if (const VectorRead::Group* group = co_await read.rest()) {
    taken->groups.push_back(*group);
    taken->at.push_back(machine->clock.now());
  }
}

// By request, after a look at what groups promise.
inline std::vector<IoResult> results_of(const GroupsTaken& taken, std::size_t requests) {
  std::vector<IoResult> results(requests);
  std::vector<int> times(requests, 0);
  for (const VectorRead::Group& group : taken.groups) {
    EXPECT_FALSE(group.empty());
    EXPECT_TRUE(std::ranges::is_sorted(group, std::ranges::less_equal(), &ReadCompletion::index)) << "in the order of the vector";
    for (const ReadCompletion& done : group) {
      ++times.at(done.index);
      results.at(done.index) = done.result;
    }
  }
  EXPECT_EQ(times, std::vector<int>(requests, 1)) << "each request is in exactly one group";
  EXPECT_TRUE(std::ranges::is_sorted(taken.at));
  return results;
}

class VectorReadLaws : public testing::TestWithParam<StorageUnderTest> {
 protected:
  static constexpr Bytes kSize = MiB + 777, kLongest = 16 * KiB;

  VectorReadLaws() : path_("vitro-vector-" + std::to_string(::getpid()) + ".bin"), bytes_(kSize) {
    Rng rng(11);
    for (std::byte& b : bytes_) b = static_cast<std::byte>(rng.next());
    OutputFile out(path_);
    out.write(std::span<const std::byte>(bytes_));
    out.commit();
    test_ = GetParam().make();
    file_ = machine().storage.open(path_).value_or_throw();
  }
  ~VectorReadLaws() override { std::filesystem::remove(path_); }

  Machine& machine() { return test_->machine(); }
  void run(Task<void> task) { test_->run(std::move(task)); }
  Lease lease(Bytes size) { return machine().memory.lease(size, Placement::dram, Region::staging).value_or_throw(); }

  // Request i lands at i * kLongest.
  std::vector<ReadRequest> random_vector(Rng& rng, std::size_t count, const Lease& into) const {
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < count; ++i) {
      const Bytes length = 1 + rng.below(kLongest), offset = rng.below(kSize - length);
      requests.push_back({{file_, offset, length}, into, i * kLongest});
    }
    return requests;
  }
  bool brought(const ReadRequest& request) const {
    return std::memcmp(request.into.data() + request.into_offset, bytes_.data() + request.from.offset, request.from.length) == 0;
  }

  std::string path_;
  std::vector<std::byte> bytes_;
  std::unique_ptr<MachineUnderTest> test_;
  FileId file_{};
};

inline Task<void> read_each(Machine* machine, std::vector<ReadRequest> requests) {
  for (ReadRequest& request : requests) {
    const IoResult result = co_await machine->storage.read(std::move(request));
    EXPECT_TRUE(result.status.ok()) << result.status.message;
  }
}

TEST_P(VectorReadLaws, a_vector_brings_the_bytes_of_single_reads_and_answers_each_request_once) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    Rng rng(seed);
    const std::size_t count = 1 + rng.below(60);
    const Lease together = lease(count * kLongest), one_by_one = lease(count * kLongest);
    const std::vector<ReadRequest> requests = random_vector(rng, count, together);
    std::vector<ReadRequest> same = requests;
    for (ReadRequest& request : same) request.into = one_by_one;
    const StorageTotals before = machine().storage.totals();
    GroupsTaken taken;
    run(take_groups(&machine(), requests, 1, &taken));
    const StorageTotals between = machine().storage.totals();
    run(read_each(&machine(), std::move(same)));
    const StorageTotals after = machine().storage.totals();

    const std::vector<IoResult> results = results_of(taken, count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(results[i].status.ok()) << results[i].status.message;
      EXPECT_EQ(results[i].done, requests[i].from.length);
      EXPECT_TRUE(brought(requests[i])) << "seed " << seed << " request " << i;
    }
    EXPECT_EQ(std::memcmp(together.data(), one_by_one.data(), together.size()), 0) << "seed " << seed;
    EXPECT_EQ(between.reads - before.reads, count);
    EXPECT_EQ(between.bytes_read - before.bytes_read, after.bytes_read - between.bytes_read);
  }
}

TEST_P(VectorReadLaws, reads_that_are_wanted_together_bring_the_same_bytes_and_each_its_own_result) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    Rng rng(seed);
    const std::size_t count = 1 + rng.below(80);
    const Lease into = lease(count * kLongest);
    std::vector<ReadRequest> requests = random_vector(rng, count, into);
    const std::size_t bad = rng.below(count);
    requests[bad].from = {file_, kSize - 100, 5000};
    if (rng.below(2) == 0) requests[rng.below(count)].pattern = Pattern::sequential;
    GroupsTaken taken;
    run(take_all(&machine(), requests, Delivery::together, &taken));
    ASSERT_EQ(taken.groups.size(), 1u);
    const std::vector<IoResult> results = results_of(taken, count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(results[i].status.code, i == bad ? Code::short_read : Code::ok) << results[i].status.message;
      if (i != bad) {
        EXPECT_TRUE(brought(requests[i])) << "seed " << seed << " request " << i;
      }
    }
  }
}

TEST_P(VectorReadLaws, nothing_asked_for_is_nothing_to_wait_for) {
  GroupsTaken taken;
  run(take_groups(&machine(), {}, 1, &taken));
  run(take_groups(&machine(), {}, 0, &taken));
  EXPECT_TRUE(taken.groups.empty());
  EXPECT_EQ(machine().storage.totals().reads, 0u);
}

TEST_P(VectorReadLaws, a_group_has_as_many_as_are_waited_for_or_all_that_are_left) {
  Rng rng(3);
  for (const std::size_t at_least : {2, 7, 50, 51}) {
    const Lease into = lease(50 * kLongest);
    GroupsTaken taken;
    run(take_groups(&machine(), random_vector(rng, 50, into), at_least, &taken));
    results_of(taken, 50);
    EXPECT_LE(taken.groups.size(), (50 + at_least - 1) / at_least);
    for (std::size_t i = 0; i + 1 < taken.groups.size(); ++i) EXPECT_GE(taken.groups[i].size(), at_least);
  }
}

inline Task<void> take_one_then_the_rest(Machine* machine, std::vector<ReadRequest> requests, GroupsTaken* taken) {
  VectorRead read = machine->storage.read_many(std::move(requests));
  taken->groups.push_back(*co_await read.next());
  if (const VectorRead::Group* rest = co_await read.rest()) taken->groups.push_back(*rest);
  EXPECT_EQ(co_await read.rest(), nullptr);
  EXPECT_EQ(co_await read.next(), nullptr);
}

TEST_P(VectorReadLaws, the_rest_is_one_group_and_after_it_there_is_none) {
  Rng rng(4);
  GroupsTaken taken;
  run(take_one_then_the_rest(&machine(), random_vector(rng, 40, lease(40 * kLongest)), &taken));
  results_of(taken, 40);
  EXPECT_LE(taken.groups.size(), 2u);
}

TEST_P(VectorReadLaws, what_fails_or_is_short_says_so_itself_and_disturbs_no_other) {
  Rng rng(5);
  const Lease into = lease(30 * kLongest);
  std::vector<ReadRequest> requests = random_vector(rng, 30, into);
  requests[7].from = {file_, kSize - 100, 5000};
  requests[29].from = {file_, kSize + 10 * kPageSize, 5000};
  GroupsTaken taken;
  run(take_groups(&machine(), requests, 1, &taken));
  const std::vector<IoResult> results = results_of(taken, 30);
  for (std::size_t i = 0; i < 30; ++i) {
    const bool past_the_end = i == 7 || i == 29;
    EXPECT_EQ(results[i].status.code, past_the_end ? Code::short_read : Code::ok) << i << results[i].status.message;
    EXPECT_TRUE(past_the_end ? results[i].done <= 100 : brought(requests[i])) << i;
    const std::string size = std::to_string(kSize);
    EXPECT_EQ(results[i].status.message.find(size) != std::string::npos, past_the_end) << "says where the file ends";
  }
}

TEST_P(VectorReadLaws, more_requests_than_the_device_takes_at_a_time_all_arrive) {
  constexpr std::size_t kCount = 600;
  ASSERT_GT(kCount, machine().storage.caps().queue_depth);
  const Lease into = lease(kCount * kPageSize);
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < kCount; ++i) requests.push_back({{file_, i % 256 * kPageSize, kPageSize}, into, i * kPageSize});
  GroupsTaken taken;
  run(take_groups(&machine(), requests, 1, &taken));
  for (const IoResult& result : results_of(taken, kCount)) EXPECT_TRUE(result.status.ok());
  for (const ReadRequest& request : requests) ASSERT_TRUE(brought(request)) << request.into_offset / kPageSize;
}

inline Task<void> write_then_read_back(Machine* machine, FileId scratch, Lease from, Lease into) {
  WriteRequest write{{scratch, 0, kPageSize}, from, 0};
  const IoResult written = co_await machine->storage.write(std::move(write));
  EXPECT_TRUE(written.status.ok()) << written.status.message;
  ReadRequest read{{scratch, 0, kPageSize}, into, 0};
  const IoResult got = co_await machine->storage.read(std::move(read));
  EXPECT_TRUE(got.status.ok()) << got.status.message;
}

inline Task<void> several_at_once(Machine* machine, std::vector<std::vector<ReadRequest>> vectors, std::vector<GroupsTaken>* taken,
                                  std::vector<ReadRequest> singles, FileId scratch, Lease from, Lease into) {
  TaskScope scope(machine->executor);
  for (std::size_t i = 0; i < vectors.size(); ++i) scope.spawn(take_groups(machine, std::move(vectors[i]), 1 + i, &(*taken)[i]));
  for (ReadRequest& single : singles) scope.spawn(read_each(machine, {single}));
  scope.spawn(write_then_read_back(machine, scratch, from, into));
  co_await scope.join();
}

TEST_P(VectorReadLaws, vectors_single_reads_and_writes_share_a_storage) {
  Rng rng(6);
  const Lease into = lease(160 * kLongest), from = lease(kPageSize), back = lease(kPageSize);
  std::memset(from.data(), 0x5a, from.size());
  std::vector<ReadRequest> all = random_vector(rng, 160, into);
  std::vector<std::vector<ReadRequest>> vectors;
  for (std::ptrdiff_t i = 0; i < 4; ++i) vectors.emplace_back(all.begin() + 30 * i, all.begin() + 30 * (i + 1));
  std::vector<GroupsTaken> taken(4);
  run(several_at_once(&machine(), vectors, &taken, {all.begin() + 120, all.end()}, machine().storage.create_scratch(MiB).value_or_throw(),
                      from, back));
  for (const GroupsTaken& each : taken) results_of(each, 30);
  for (const ReadRequest& request : all) EXPECT_TRUE(brought(request));
  EXPECT_EQ(std::memcmp(from.data(), back.data(), kPageSize), 0);
  EXPECT_EQ(machine().storage.totals().reads, 161u);
  EXPECT_EQ(machine().storage.totals().writes, 1u);
}

inline Task<void> hold_leases(Machine* machine, FileId file, std::vector<Bytes>* used) {
  const auto note = [&] { used->push_back(machine->memory.budget(Placement::dram).used); };
  {
    std::vector<ReadRequest> requests;
    for (Bytes i = 0; i < 3; ++i) {
      Lease into = machine->memory.lease(kPageSize, Placement::dram, Region::staging).value_or_throw();
      requests.push_back({{file, i * kPageSize, kPageSize}, std::move(into), 0});
    }
    VectorRead read = machine->storage.read_many(std::move(requests));
    note();
    co_await read.rest();
    note();
  }
  note();
}

TEST_P(VectorReadLaws, a_vector_holds_the_memory_that_it_reads_into_until_it_dies) {
  std::vector<Bytes> used;
  run(hold_leases(&machine(), file_, &used));
  EXPECT_EQ(used, (std::vector<Bytes>{3 * kPageSize, 3 * kPageSize, 0}));
}

}  // namespace vitro
