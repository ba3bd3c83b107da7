#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "engine/base/file.hpp"
#include "engine/base/rng.hpp"
#include "engine/host/host_machine.hpp"

namespace vitro {
namespace {

class NoFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

struct Path {
  const char* name;
  bool portable, direct;
};
void PrintTo(const Path& path, std::ostream* out) { *out << path.name; }

constexpr Bytes kSize = 5 * MiB + 1234;

// Made once: a sanitizer takes a second to draw it.
const std::vector<std::byte>& contents() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> drawn(kSize);
    Rng rng(7);
    for (std::byte& b : drawn) b = static_cast<std::byte>(rng.next());
    return drawn;
  }();
  return bytes;
}

// Every law below holds on both backends, with and without the page cache.
class HostStorageLaws : public testing::TestWithParam<Path> {
 protected:
  HostStorageLaws() : path_("vitro-storage-" + std::to_string(::getpid()) + ".bin") {
    OutputFile file(path_);
    file.write(std::span<const std::byte>(bytes_));
    file.commit();
    HostOptions options;
    options.units = 1;
    options.force_portable_storage = GetParam().portable;
    options.direct_io = GetParam().direct;
    options.scratch_folder = ".";
    host_ = make_host_machine(options, function_, trace_);
  }
  ~HostStorageLaws() override { std::filesystem::remove(path_); }

  Machine& machine() { return host_->machine(); }
  Lease lease(Bytes size) { return machine().memory.lease(size, Placement::dram, Region::staging).value_or_throw(); }
  FileId open() { return machine().storage.open(path_).value_or_throw(); }

  NoFunction function_;
  NullTrace trace_;
  std::string path_;
  const std::vector<std::byte>& bytes_ = contents();
  std::unique_ptr<MachineHost> host_;
};

Task<void> read_one(Machine* machine, ReadRequest request, IoResult* result) {
  *result = co_await machine->storage.read(std::move(request));
}

bool untouched(const std::byte* data, Bytes size) {
  const std::vector<std::byte> pattern(size, std::byte{0xee});
  return size == 0 || std::memcmp(data, pattern.data(), size) == 0;
}

TEST_P(HostStorageLaws, any_extent_brings_its_bytes_and_touches_no_others) {
  struct Case {
    Bytes offset, length, into;
  };
  const Case cases[] = {{0, 4096, 0},
                        {4096, 8192, 4096},
                        {1, 1, 0},
                        {4095, 2, 4096},
                        {5000, 3000, 17},
                        {0, MiB, 1},
                        {MiB - 5, 2 * MiB + 11, 4096},
                        {0, 5 * MiB, 0},
                        {3 * MiB, kSize - 3 * MiB, 0},
                        {kSize - 1, 1, 0},
                        {kSize - 1234, 1234, 4096},
                        {0, kSize, 3}};
  const FileId file = open();
  for (const Case& c : cases) {
    const Lease into = lease(6 * MiB);
    std::memset(into.data(), 0xee, into.size());
    IoResult result;
    host_->run(read_one(&machine(), {{file, c.offset, c.length}, into, c.into}, &result));
    SCOPED_TRACE(testing::Message() << c.offset << "+" << c.length << " into " << c.into);
    ASSERT_TRUE(result.status.ok()) << result.status.message;
    EXPECT_EQ(result.done, c.length);
    EXPECT_EQ(std::memcmp(into.data() + c.into, bytes_.data() + c.offset, c.length), 0);
    EXPECT_TRUE(untouched(into.data(), c.into));
    EXPECT_TRUE(untouched(into.data() + c.into + c.length, into.size() - c.into - c.length));
  }
}

Task<void> read_and_compare(Machine* machine, ReadRequest request, const std::byte* expected, int* right) {
  const Lease into = request.into;
  const Bytes at = request.into_offset, length = request.from.length;
  const IoResult result = co_await machine->storage.read(std::move(request));
  *right += result.status.ok() && std::memcmp(into.data() + at, expected, length) == 0;
}

Task<void> read_many(Machine* machine, FileId file, Lease into, const std::vector<std::byte>* bytes, int n, int* right) {
  Rng rng(3);
  TaskScope scope(machine->executor);
  for (int i = 0; i < n; ++i) {
    const Bytes length = 1 + rng.below(8 * KiB), offset = rng.below(bytes->size() - length);
    ReadRequest request{{file, offset, length}, into, static_cast<Bytes>(i) * 8 * KiB};
    scope.spawn(read_and_compare(machine, std::move(request), bytes->data() + offset, right));
  }
  co_await scope.join();
}

TEST_P(HostStorageLaws, many_reads_at_once_all_arrive) {
  constexpr int kReads = 1000;
  int right = 0;
  host_->run(read_many(&machine(), open(), lease(kReads * 8 * KiB), &bytes_, kReads, &right));
  EXPECT_EQ(right, kReads);
  EXPECT_EQ(machine().storage.totals().reads, static_cast<std::uint64_t>(kReads));
}

TEST_P(HostStorageLaws, a_read_past_the_end_says_where_the_file_ends_and_keeps_what_there_was) {
  const FileId file = open();
  const Lease into = lease(8 * MiB);
  for (const Bytes offset : {kSize - 100, 2 * MiB + 3, kSize + 1, kSize + 5 * MiB}) {
    IoResult result;
    host_->run(read_one(&machine(), {{file, offset, 4 * MiB}, into, 0}, &result));
    EXPECT_EQ(result.status.code, Code::short_read);
    const std::string& message = result.status.message;
    EXPECT_NE(message.find(path_ + ": the file ends at offset " + std::to_string(kSize)), std::string::npos) << message;
    EXPECT_NE(message.find("offset " + std::to_string(offset) + " was requested"), std::string::npos) << message;
    const Bytes there = offset < kSize ? kSize - offset : 0;
    EXPECT_EQ(result.done, there);
    EXPECT_TRUE(there == 0 || std::memcmp(into.data(), bytes_.data() + offset, there) == 0);
  }
}

TEST_P(HostStorageLaws, totals_count_the_aligned_cover) {
  const FileId file = open();
  IoResult result;
  host_->run(read_one(&machine(), {{file, 4095, 2}, lease(kPageSize), 0}, &result));
  EXPECT_EQ(machine().storage.totals().bytes_read, 2 * kPageSize);
  host_->run(read_one(&machine(), {{file, 8192, 4096}, lease(kPageSize), 0}, &result));
  EXPECT_EQ(machine().storage.totals().bytes_read, 3 * kPageSize);
  EXPECT_EQ(machine().storage.totals().reads, 2u);
}

Task<void> write_then_read(Machine* machine, FileId file, Lease from, Lease into) {
  struct Step {
    Bytes offset, length, memory;
  };
  for (const Step& step : {Step{0, 3 * MiB, 0}, Step{4096, 4096, 8192}, Step{10'000, 77, 5}, Step{3 * MiB - 1, 1, 123}}) {
    WriteRequest write{{file, step.offset, step.length}, from, step.memory};
    const IoResult written = co_await machine->storage.write(std::move(write));
    EXPECT_TRUE(written.status.ok()) << written.status.message;
    EXPECT_EQ(written.done, step.length);
    ReadRequest read{{file, step.offset, step.length}, into, step.memory};
    const IoResult got = co_await machine->storage.read(std::move(read));
    EXPECT_TRUE(got.status.ok()) << got.status.message;
    EXPECT_EQ(std::memcmp(into.data() + step.memory, from.data() + step.memory, step.length), 0);
  }
}

TEST_P(HostStorageLaws, a_scratch_file_keeps_what_is_written) {
  const FileId file = machine().storage.create_scratch(4 * MiB).value_or_throw();
  const Lease from = lease(4 * MiB), into = lease(4 * MiB);
  std::memcpy(from.data(), bytes_.data(), 4 * MiB);
  host_->run(write_then_read(&machine(), file, from, into));
  EXPECT_EQ(machine().storage.totals().writes, 4u);
}

Task<void> write_one(Machine* machine, WriteRequest request, IoResult* result) {
  *result = co_await machine->storage.write(std::move(request));
}

TEST_P(HostStorageLaws, files_opened_by_name_are_not_written) {
  IoResult result;
  host_->run(write_one(&machine(), {{open(), 0, 4096}, lease(kPageSize), 0}, &result));
  EXPECT_EQ(result.status.code, Code::io_error);
  EXPECT_NE(result.status.message.find("opened for reading"), std::string::npos);
}

TEST_P(HostStorageLaws, scratch_files_leave_no_name_behind) {
  const auto count = [] {
    std::size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(".")) n += entry.path().filename().string().starts_with("vitro-scratch");
    return n;
  };
  const std::size_t before = count();
  ASSERT_TRUE(machine().storage.create_scratch(MiB).ok());
  EXPECT_EQ(count(), before);
}

TEST_P(HostStorageLaws, what_can_not_be_opened_is_a_status_with_the_path) {
  const Result<FileId> missing = machine().storage.open("no/such/file");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message.find("no/such/file: can not open"), std::string::npos);
  EXPECT_FALSE(machine().storage.open(".").ok());
  EXPECT_FALSE(machine().storage.open_phantom(MiB).ok());
  const Result<FileId> huge = machine().storage.create_scratch(Bytes{1} << 60);
  ASSERT_FALSE(huge.ok());
  EXPECT_NE(huge.status().message.find("can not"), std::string::npos) << huge.status().message;
}

TEST_P(HostStorageLaws, the_path_says_what_runs) {
  const std::string& path = machine().storage.caps().path;
  EXPECT_TRUE(!GetParam().portable || path.starts_with("pread")) << path;
  EXPECT_TRUE(GetParam().direct || path.find("O_DIRECT") == std::string::npos) << path;
}

INSTANTIATE_TEST_SUITE_P(Paths, HostStorageLaws,
                         testing::Values(Path{"uring_direct", false, true}, Path{"uring_buffered", false, false},
                                         Path{"pread_direct", true, true}, Path{"pread_buffered", true, false}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HostStorage, a_phantom_run_reads_the_flash_and_drops_the_bytes) {
  const std::string path = "vitro-phantom-" + std::to_string(::getpid()) + ".bin";
  {
    OutputFile file(path);
    file.write(std::string(100'000, 'x'));
    file.commit();
  }
  NoFunction function;
  NullTrace trace;
  HostOptions options;
  options.units = 1;
  options.phantom = true;
  const auto host = make_host_machine(options, function, trace);
  Machine& machine = host->machine();
  const FileId file = machine.storage.open(path).value_or_throw();
  const Lease into = machine.memory.lease(100'000, Placement::dram, Region::staging).value_or_throw();
  ASSERT_EQ(into.data(), nullptr);
  IoResult result;
  host->run(read_one(&machine, {{file, 0, 100'000}, into, 0}, &result));
  std::filesystem::remove(path);
  EXPECT_TRUE(result.status.ok()) << result.status.message;
  EXPECT_EQ(result.done, 100'000u);
}

}  // namespace
}  // namespace vitro
