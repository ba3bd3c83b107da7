#include "engine/faults/checked_storage.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "engine/base/file.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "tests/engine/machine/deliveries.hpp"

namespace vitro {
namespace {

using test::Deliveries;
using test::read_page;

class DoesNothing final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

TEST(CheckedStorage, a_vector_is_delivered_as_it_was_asked_for) {
  DoesNothing function;
  NullTrace trace;
  VirtualMachineSpec spec;
  spec.phantom = true;
  VirtualMachine host(spec, function, trace);
  Deliveries behind(host.machine().storage);
  CheckedStorage storage(behind);
  const FileId file = storage.open_phantom(MiB).value_or_throw();
  const Lease into = host.machine().memory.lease(kPageSize, Placement::dram, Region::staging).value_or_throw();
  const std::vector<Delivery> both{Delivery::together, Delivery::as_they_come};
  for (const Delivery delivery : both) host.run(read_page(&storage, file, into, delivery));
  EXPECT_EQ(behind.seen, both);
}

// Storage whose next reads bring one wrong byte, at `wrong` of the file.
class LyingStorage final : public StorageDecorator {
 public:
  using StorageDecorator::StorageDecorator;
  int lies = 0;
  Bytes wrong = 0;

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override { lie(request, done); }
  void submit(VectorRead& read) override {
    for (std::uint32_t i = 0; i < read.requests().size(); ++i) lie(read.requests()[i], ResultSlot(read, i));
  }

 private:
  Detached lie(ReadRequest request, ResultSlot done) {
    ReadRequest submitted = request;
    IoResult result = co_await inner_.read(std::move(submitted));
    const bool covers = wrong >= request.from.offset && wrong < request.from.offset + request.from.length;
    if (covers && lies > 0) {
      --lies;
      request.into.data()[request.into_offset + wrong - request.from.offset] ^= std::byte{1};
    }
    done.complete(std::move(result));
  }
};

constexpr Bytes kFile = 3 * kPageSize + 1000;

struct Bench {
  Bench() : path((std::filesystem::temp_directory_path() / ("vitro-checked-" + std::to_string(::getpid()))).string()) {
    std::string bytes(kFile, 0);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 % 251);
    OutputFile out(path);
    out.write(bytes);
    out.commit();
    content = bytes;
    file = storage.open(path).value_or_throw();
    std::filesystem::remove(path);
  }
  static Task<void> read_into(Storage* storage, ReadRequest request, IoResult* result) {
    *result = co_await storage->read(std::move(request));
  }
  static Task<void> read_vector(Storage* storage, std::vector<ReadRequest> requests, std::vector<IoResult>* results) {
    VectorRead read = storage->read_many(std::move(requests));
    while (const VectorRead::Group* group = co_await read.next()) {
      for (const ReadCompletion& done : *group) (*results)[done.index] = done.result;
    }
  }
  static Task<void> write_from(Storage* storage, WriteRequest request, IoResult* result) {
    *result = co_await storage->write(std::move(request));
  }
  IoResult read(FileId from, Bytes offset, Bytes length) {
    IoResult result;
    host.run(read_into(&storage, {{from, offset, length}, memory, 8}, &result));
    return result;
  }
  bool right(Bytes offset, Bytes length) const { return std::memcmp(memory.data() + 8, content.data() + offset, length) == 0; }

  std::string path, content;
  DoesNothing function;
  NullTrace trace;
  VirtualMachine host{{}, function, trace};
  LyingStorage lying{host.machine().storage};
  CheckedStorage storage{lying};
  FileId file{};
  Lease memory = host.machine().memory.lease(8 * kPageSize, Placement::dram, Region::staging).value_or_throw();
};

TEST(CheckedStorage, brings_what_was_asked_for_wherever_it_begins_and_ends) {
  Bench bench;
  const std::vector<std::pair<Bytes, Bytes>> all{
      {0, kPageSize}, {0, kFile}, {1, 1}, {kPageSize - 3, 6}, {5000, 7000}, {3 * kPageSize, 1000}, {kFile - 1, 1}};
  for (const auto& [offset, length] : all) {
    const IoResult result = bench.read(bench.file, offset, length);
    EXPECT_TRUE(result.status.ok()) << result.status.message;
    EXPECT_EQ(result.done, length);
    EXPECT_TRUE(bench.right(offset, length)) << offset << "+" << length;
  }
  EXPECT_EQ(bench.storage.damaged(), 0u);
}

TEST(CheckedStorage, a_wrong_byte_is_read_again_once_and_then_named) {
  for (const auto& [offset, length] : std::vector<std::pair<Bytes, Bytes>>{{kPageSize, kPageSize}, {5000, 200}, {0, kFile}}) {
    Bench bench;
    bench.lying.wrong = 5001;
    bench.lying.lies = 1;
    EXPECT_TRUE(bench.read(bench.file, offset, length).status.ok());
    EXPECT_TRUE(bench.right(offset, length));
    EXPECT_EQ(bench.storage.recovered(), 1u);
    bench.lying.lies = 2;
    const IoResult bad = bench.read(bench.file, offset, length);
    EXPECT_EQ(bad.status.code, Code::io_error);
    EXPECT_EQ(bad.status.message, bench.path + ": the page at 4096 is not what was written to it (read twice)");
  }
}

TEST(CheckedStorage, of_a_vector_the_damaged_one_alone_fails) {
  Bench bench;
  bench.lying.wrong = kPageSize, bench.lying.lies = 100;
  std::vector<ReadRequest> requests;
  for (Bytes page = 0; page < 3; ++page) requests.push_back({{bench.file, page * kPageSize, kPageSize}, bench.memory, page * kPageSize});
  std::vector<IoResult> results(3);
  bench.host.run(Bench::read_vector(&bench.storage, requests, &results));
  EXPECT_TRUE(results[0].status.ok() && results[2].status.ok());
  EXPECT_EQ(results[1].status.code, Code::io_error);
}

TEST(CheckedStorage, a_scratch_file_is_held_against_what_was_written_to_it) {
  Bench bench;
  const FileId scratch = bench.storage.create_scratch(4 * kPageSize).value_or_throw();
  EXPECT_TRUE(bench.read(scratch, 0, kPageSize).status.ok()) << "never written: not checked";
  IoResult written;
  bench.memory.data()[0] = std::byte{42};
  bench.host.run(Bench::write_from(&bench.storage, {{scratch, kPageSize, kPageSize}, bench.memory, 0}, &written));
  ASSERT_TRUE(written.status.ok());
  EXPECT_TRUE(bench.read(scratch, kPageSize, kPageSize).status.ok());
  bench.lying.wrong = kPageSize + 17, bench.lying.lies = 2;
  EXPECT_EQ(bench.read(scratch, kPageSize, kPageSize).status.code, Code::io_error);
  EXPECT_TRUE(bench.read(scratch, kPageSize, kPageSize).status.ok()) << "the storage speaks the truth again";
}

}  // namespace
}  // namespace vitro
