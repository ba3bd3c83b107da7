// The laws of VectorRead on the real machine's storage, and what a submission costs there.
#include "engine/host/host_machine.hpp"
#include "engine/host/host_storage.hpp"
#include "engine/machine/budgeted_memory.hpp"
#include "tests/engine/machine/vector_read_laws.hpp"

namespace vitro {
namespace {

class Unused final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

class HostUnderTest final : public MachineUnderTest {
 public:
  HostUnderTest(bool portable, bool direct) {
    HostOptions options;
    options.units = 1;
    options.force_portable_storage = portable;
    options.direct_io = direct;
    options.scratch_folder = ".";
    host_ = make_host_machine(options, function_, trace_);
  }
  Machine& machine() override { return host_->machine(); }
  void run(Task<void> task) override { host_->run(std::move(task)); }

 private:
  Unused function_;
  NullTrace trace_;
  std::unique_ptr<MachineHost> host_;
};

StorageUnderTest path(std::string name, bool portable, bool direct) {
  return {std::move(name), [=] { return std::make_unique<HostUnderTest>(portable, direct); }};
}

INSTANTIATE_TEST_SUITE_P(Paths, VectorReadLaws,
                         testing::Values(path("uring_direct", false, true), path("uring_buffered", false, false),
                                         path("pread_direct", true, true), path("pread_buffered", true, false)),
                         [](const auto& info) { return info.param.name; });

// A backend that lets a test see what the storage asks of the one behind it.
class WatchedBackend final : public IoBackend {
 public:
  explicit WatchedBackend(std::unique_ptr<IoBackend> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  std::uint32_t queue_depth() const override { return inner_->queue_depth(); }
  void submit(Transfer& transfer) override {
    ++submitted;
    inner_->submit(transfer);
  }
  void flush() override { inner_->flush(); }
  std::uint64_t system_calls() const override { return inner_->system_calls(); }
  void reap(std::vector<Transfer*>& finished) override {
    inner_->reap(finished);
    reaped.push_back(finished.size());
  }
  void arm() override { inner_->arm(); }
  void disarm() override { inner_->disarm(); }

  std::uint64_t submitted = 0;
  std::vector<std::size_t> reaped;

 private:
  std::unique_ptr<IoBackend> inner_;
};

class VectorReadCost : public testing::Test {
 protected:
  VectorReadCost() : path_("vitro-vector-cost-" + std::to_string(::getpid()) + ".bin"), memory_({64 * MiB, 0, 0, 0}, false) {
    OutputFile out(path_);
    out.write(std::string(MiB, 'x'));
    out.commit();
  }
  ~VectorReadCost() override { std::filesystem::remove(path_); }

  void use(std::unique_ptr<IoBackend> backend) {
    auto watched = std::make_unique<WatchedBackend>(std::move(backend));
    backend_ = watched.get();
    storage_ = std::make_unique<HostStorage>(executor_, std::move(watched), false, ".", activity_, trace_);
    executor_.add(*storage_);
    file_ = storage_->open(path_).value_or_throw();
  }
  // `count` pages of the file, from page `first` on.
  std::vector<ReadRequest> pages(std::size_t first, std::size_t count) {
    const Lease into = memory_.lease(count * kPageSize, Placement::dram, Region::staging).value_or_throw();
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < count; ++i) requests.push_back({{file_, (first + i) % 256 * kPageSize, kPageSize}, into, i * kPageSize});
    return requests;
  }
  void run(Task<void> task) { executor_.run(task); }

  std::string path_;
  HostExecutor executor_;
  Activity activity_{1};
  NullTrace trace_;
  BudgetedMemory memory_;
  WatchedBackend* backend_ = nullptr;
  std::unique_ptr<HostStorage> storage_;
  FileId file_{};
};

struct Seen {
  std::uint64_t calls_when_submitted = 0, transfers_when_submitted = 0, groups = 0, reads = 0;
};

Task<void> take_all(HostStorage* storage, const WatchedBackend* backend, std::vector<ReadRequest> requests, Seen* seen) {
  VectorRead read = storage->read_many(std::move(requests));
  seen->calls_when_submitted = backend->system_calls();
  seen->transfers_when_submitted = backend->submitted;
  while (const VectorRead::Group* group = co_await read.next()) {
    ++seen->groups;
    seen->reads += group->size();
  }
}

TEST_F(VectorReadCost, a_submission_is_one_system_call_at_once) {
  std::string why;
  std::unique_ptr<IoBackend> uring = make_uring_backend(executor_, why);
  if (!uring) GTEST_SKIP() << "io_uring is not available: " << why;
  use(std::move(uring));
  for (const std::size_t count : {1, 2, 40, 64}) {
    const std::uint64_t calls = backend_->system_calls(), transfers = backend_->submitted;
    Seen seen;
    run(take_all(storage_.get(), backend_, pages(3, count), &seen));
    EXPECT_EQ(seen.transfers_when_submitted - transfers, count) << "nothing waits for the executor to go idle";
    EXPECT_EQ(seen.calls_when_submitted - calls, 1u);
    EXPECT_EQ(backend_->system_calls() - calls, 1u) << "and none is needed later";
    EXPECT_EQ(seen.reads, count);
  }
}

// What the queue has no room for goes in as completions make room: one system call for each look at completions that found some.
TEST_F(VectorReadCost, what_the_queue_has_no_room_for_follows_by_batches) {
  std::string why;
  std::unique_ptr<IoBackend> uring = make_uring_backend(executor_, why);
  if (!uring) GTEST_SKIP() << "io_uring is not available: " << why;
  use(std::move(uring));
  Seen seen;
  run(take_all(storage_.get(), backend_, pages(0, 500), &seen));
  const auto passes = static_cast<std::uint64_t>(std::ranges::count_if(backend_->reaped, [](std::size_t n) { return n > 0; }));
  EXPECT_EQ(seen.transfers_when_submitted, backend_->queue_depth());
  EXPECT_LE(backend_->system_calls(), 1 + passes);
  EXPECT_LE(seen.groups, passes) << "one pass over completions makes at most one group";
  EXPECT_EQ(seen.reads, 500u);
}

TEST_F(VectorReadCost, pread_takes_one_system_call_for_each_read) {
  use(make_pread_backend(executor_));
  Seen seen;
  run(take_all(storage_.get(), backend_, pages(0, 50), &seen));
  EXPECT_EQ(backend_->system_calls(), 50u);
  EXPECT_EQ(seen.reads, 50u);
}

// Single reads that wait for the executor to go idle leave with the vector.
Task<void> single(HostStorage* storage, ReadRequest request) {
  const IoResult result = co_await storage->read(std::move(request));
  EXPECT_TRUE(result.status.ok()) << result.status.message;
}

Task<void> singles_and_a_vector(HostExecutor* executor, HostStorage* storage, const WatchedBackend* backend,
                                std::vector<ReadRequest> singles, std::vector<ReadRequest> vector, Seen* seen) {
  TaskScope scope(*executor);
  for (ReadRequest& request : singles) scope.spawn(single(storage, std::move(request)));
  scope.spawn(take_all(storage, backend, std::move(vector), seen));
  co_await scope.join();
}

TEST_F(VectorReadCost, a_vector_takes_queued_single_reads_with_it) {
  std::string why;
  std::unique_ptr<IoBackend> uring = make_uring_backend(executor_, why);
  if (!uring) GTEST_SKIP() << "io_uring is not available: " << why;
  use(std::move(uring));
  Seen seen;
  run(singles_and_a_vector(&executor_, storage_.get(), backend_, pages(0, 5), pages(9, 20), &seen));
  EXPECT_EQ(seen.transfers_when_submitted, 25u);
  EXPECT_EQ(backend_->system_calls(), 1u);
}

// Outstanding from the submission of the first to the completion of the last, without gaps, and idle after.
TEST_F(VectorReadCost, storage_is_busy_from_the_submission_to_the_last_completion) {
  use(make_pread_backend(executor_));
  const Picoseconds begin = executor_.now();
  Seen seen;
  run(take_all(storage_.get(), backend_, pages(0, 30), &seen));
  EXPECT_EQ(activity_.storage_outstanding(), 0u);
  const Picoseconds end = executor_.now();
  EXPECT_GT(activity_.io_share(begin, end), 0.0);
  EXPECT_LE(activity_.io_share(begin, end), 1.0);
  EXPECT_EQ(storage_->totals().reads, 30u);
}

}  // namespace
}  // namespace vitro
