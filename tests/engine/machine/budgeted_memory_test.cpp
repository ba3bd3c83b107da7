#include "engine/machine/budgeted_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace vitro {
namespace {

BudgetedMemory memory_of(Bytes limit, bool phantom = false) { return BudgetedMemory({limit, 0, 0, 0}, phantom); }

// Pages of [data, data + size) that are in memory now.
std::size_t resident_pages(const std::byte* data, Bytes size) {
  std::vector<unsigned char> pages(size / kPageSize);
  if (::mincore(const_cast<std::byte*>(data), size, pages.data()) != 0) return ~std::size_t{0};
  std::size_t n = 0;
  for (const unsigned char page : pages) n += page & 1;
  return n;
}

TEST(BudgetedMemory, a_lease_is_zeroed_page_aligned_and_charged_in_whole_pages) {
  BudgetedMemory memory = memory_of(MiB);
  const Lease lease = memory.lease(5000, Placement::dram, Region::kv).value_or_throw();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lease.data()) % kPageSize, 0u);
  EXPECT_EQ(lease.size(), 2 * kPageSize);
  for (Bytes i = 0; i < lease.size(); ++i) ASSERT_EQ(lease.data()[i], std::byte{0});
  EXPECT_EQ(memory.budget(Placement::dram).used, 2 * kPageSize);
}

TEST(BudgetedMemory, the_last_byte_fits_and_the_next_does_not) {
  BudgetedMemory memory = memory_of(4 * kPageSize);
  const Lease all = memory.lease(4 * kPageSize, Placement::dram, Region::fixed).value_or_throw();
  const Result<Lease> more = memory.lease(1, Placement::dram, Region::hot);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().code, Code::over_budget);
  EXPECT_EQ(more.status().message, "4.00 KiB more for hot do not fit: 16.00 KiB of 16.00 KiB are in use");
}

// Pages of a file that somebody else could map, one range at a time.
class OneRange final : public SharedPages {
 public:
  Result<std::byte*> take(Bytes size) override {
    if (data_ != nullptr) return Status{Code::over_budget, "the range is taken"};
    size_ = size;
    data_ = static_cast<std::byte*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    return data_;
  }
  void discard(std::byte* data, Bytes size) override { EXPECT_EQ(::madvise(data, size, MADV_REMOVE), 0); }
  void give_back(std::byte* data, Bytes size) override {
    EXPECT_EQ(data, data_);
    EXPECT_EQ(size, size_);
    ::munmap(data, size);
    data_ = nullptr;
  }
  std::byte* data_ = nullptr;
  Bytes size_ = 0;
};

TEST(BudgetedMemory, shared_pages_are_charged_to_dram_and_shown_apart) {
  BudgetedMemory memory = memory_of(4 * kPageSize);
  const auto pages = std::make_shared<OneRange>();
  EXPECT_EQ(memory.lease(1, Placement::npu_mapped, Region::fixed).status().code, Code::over_budget) << "there is no such place yet";
  memory.share(Placement::npu_mapped, pages);
  {
    const Lease lease = memory.lease(2 * kPageSize, Placement::npu_mapped, Region::fixed).value_or_throw();
    EXPECT_EQ(lease.data(), pages->data_);
    EXPECT_EQ(lease.placement(), Placement::npu_mapped);
    EXPECT_EQ(memory.lease(kPageSize, Placement::npu_mapped, Region::hot).status().message, "the range is taken");
    const Lease own = memory.lease(kPageSize, Placement::dram, Region::kv).value_or_throw();
    EXPECT_EQ(memory.budget(Placement::dram).used, 3 * kPageSize);
    EXPECT_EQ(memory.budget(Placement::dram).region_used[static_cast<std::size_t>(Region::fixed)], 2 * kPageSize);
    EXPECT_EQ(memory.budget(Placement::npu_mapped).used, 2 * kPageSize);
  }
  EXPECT_EQ(pages->data_, nullptr) << "given back";
  EXPECT_EQ(memory.budget(Placement::dram).used, 0u);
  EXPECT_EQ(memory.budget(Placement::npu_mapped).used, 0u);
  EXPECT_EQ(memory.budget(Placement::npu_mapped).peak, 2 * kPageSize);

  const Lease most = memory.lease(3 * kPageSize, Placement::dram, Region::kv).value_or_throw();
  const Status refused = memory.lease(2 * kPageSize, Placement::npu_mapped, Region::fixed).status();
  EXPECT_EQ(refused.code, Code::over_budget);
  EXPECT_EQ(refused.message, "8.00 KiB more for fixed in npu_mapped do not fit: 12.00 KiB of 16.00 KiB are in use");
  EXPECT_EQ(pages->data_, nullptr) << "what was refused is given back";
}

// False where an emulator says that it took shared pages away, and did not.
bool shared_pages_go() {
  OneRange range;
  std::byte* data = range.take(kPageSize).value_or_throw();
  *data = std::byte{1};
  const bool gone = ::madvise(data, kPageSize, MADV_REMOVE) == 0 && *data == std::byte{0};
  range.give_back(data, kPageSize);
  return gone;
}

TEST(BudgetedMemory, shared_pages_are_committed_and_given_back_piece_by_piece) {
  if (!shared_pages_go()) GTEST_SKIP() << "needs MADV_REMOVE, which emulators ignore";
  BudgetedMemory memory = memory_of(4 * kPageSize);
  memory.share(Placement::npu_mapped, std::make_shared<OneRange>());
  const Lease range = memory.reserve(8 * kPageSize, Placement::npu_mapped, Region::cold).value_or_throw();
  for (const Bytes at : {Bytes{0}, 6 * kPageSize}) {
    EXPECT_TRUE(memory.commit(range, at, 2 * kPageSize).ok());
    std::memset(range.data() + at, 1, 2 * kPageSize);
  }
  EXPECT_EQ(memory.budget(Placement::dram).used, 4 * kPageSize);
  EXPECT_EQ(memory.commit(range, 2 * kPageSize, kPageSize).code, Code::over_budget);
  memory.decommit(range, 0, 2 * kPageSize);
  EXPECT_EQ(memory.budget(Placement::dram).used, 2 * kPageSize);
  EXPECT_EQ(resident_pages(range.data(), 8 * kPageSize), 2u);
  EXPECT_EQ(range.data()[0], std::byte{0});
  EXPECT_EQ(range.data()[6 * kPageSize], std::byte{1});
}

// "VmLck" of this process.
Bytes locked_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmLck:") continue;
    Bytes kib = 0;
    status >> kib;
    return kib * KiB;
  }
  return 0;
}

// What this process may lock, for as long as it lives.
struct MayLock {
  explicit MayLock(Bytes bytes) {
    ::getrlimit(RLIMIT_MEMLOCK, &before);
    const rlimit now{bytes, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &now), 0);
  }
  ~MayLock() { ::setrlimit(RLIMIT_MEMLOCK, &before); }
  rlimit before{};
};

TEST(BudgetedMemory, what_is_locked_stays_until_it_is_given_back) {
  const MayLock most(64 * kPageSize);
  const Bytes before = locked_bytes();
  BudgetedMemory memory({MiB, 0, 0, 0}, false, true);
  {
    const Lease lease = memory.lease(8 * kPageSize, Placement::dram, Region::fixed).value_or_throw();
    EXPECT_EQ(locked_bytes() - before, 8 * kPageSize);
    const Lease range = memory.reserve(16 * kPageSize, Placement::dram, Region::cold).value_or_throw();
    EXPECT_EQ(locked_bytes() - before, 8 * kPageSize) << "nothing of it is used yet";
    ASSERT_TRUE(memory.commit(range, 4 * kPageSize, 8 * kPageSize).ok());
    std::memset(range.data() + 4 * kPageSize, 1, 8 * kPageSize);
    EXPECT_EQ(locked_bytes() - before, 16 * kPageSize);
    memory.decommit(range, 4 * kPageSize, 4 * kPageSize);
    EXPECT_EQ(locked_bytes() - before, 12 * kPageSize);
    EXPECT_EQ(resident_pages(range.data() + 4 * kPageSize, 4 * kPageSize), 0u) << "given back, though it was locked";
  }
  EXPECT_EQ(locked_bytes(), before);
}

// In a process of its own without privileges: the superuser may lock whatever there is.
TEST(BudgetedMemory, what_can_not_be_locked_is_refused_and_costs_no_budget) {
  const auto lease_more_than_may_be_locked = [] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(3);
    const MayLock most(4 * kPageSize);
    BudgetedMemory memory({MiB, 0, 0, 0}, false, true);
    const Result<Lease> lease = memory.lease(8 * kPageSize, Placement::dram, Region::fixed);
    if (!lease.ok()) std::fprintf(stderr, "%s", lease.status().message.c_str());
    ::_exit(memory.budget(Placement::dram).used == 0 ? 0 : 4);
  };
  EXPECT_EXIT(lease_more_than_may_be_locked(), testing::ExitedWithCode(0),
              "memory.lock: 32.00 KiB more can not be locked in DRAM: .*16.00 KiB");
}

TEST(BudgetedMemory, a_placement_without_a_limit_does_not_exist) {
  BudgetedMemory memory = memory_of(MiB);
  EXPECT_EQ(memory.lease(1, Placement::npu_tcm, Region::fixed).status().code, Code::over_budget);
}

TEST(BudgetedMemory, the_budget_returns_with_the_last_holder) {
  BudgetedMemory memory = memory_of(MiB);
  Lease first = memory.lease(kPageSize, Placement::dram, Region::cold).value_or_throw();
  Lease second = first;
  first = Lease();
  EXPECT_EQ(memory.budget(Placement::dram).used, kPageSize);
  second.data()[0] = std::byte{1};
  second = Lease();
  EXPECT_EQ(memory.budget(Placement::dram).used, 0u);
}

TEST(BudgetedMemory, peaks_are_kept_per_region) {
  BudgetedMemory memory = memory_of(MiB);
  const auto region = [&](Region r) { return static_cast<std::size_t>(r); };
  { const Lease hot = memory.lease(3 * kPageSize, Placement::dram, Region::hot).value_or_throw(); }
  const Lease cold = memory.lease(2 * kPageSize, Placement::dram, Region::cold).value_or_throw();
  const Budget& budget = memory.budget(Placement::dram);
  EXPECT_EQ(budget.peak, 3 * kPageSize);
  EXPECT_EQ(budget.region_peak[region(Region::hot)], 3 * kPageSize);
  EXPECT_EQ(budget.region_used[region(Region::hot)], 0u);
  EXPECT_EQ(budget.region_peak[region(Region::cold)], 2 * kPageSize);
}

TEST(BudgetedMemory, a_reserved_range_costs_what_is_committed) {
  BudgetedMemory memory = memory_of(4 * kPageSize);
  // More than any test machine has, and little enough for ThreadSanitizer, which leaves 0.5 TiB of addresses.
  const Lease range = memory.reserve(128 * GiB, Placement::dram, Region::cold).value_or_throw();
  EXPECT_EQ(memory.budget(Placement::dram).used, 0u);
  EXPECT_TRUE(memory.commit(range, 100 * GiB, 3 * kPageSize).ok());
  EXPECT_EQ(memory.commit(range, 0, 2 * kPageSize).code, Code::over_budget);
  EXPECT_EQ(memory.budget(Placement::dram).used, 3 * kPageSize);
  memory.decommit(range, 100 * GiB, 3 * kPageSize);
  EXPECT_TRUE(memory.commit(range, 0, 4 * kPageSize).ok());
}

TEST(BudgetedMemory, decommit_gives_pages_back_to_the_system_and_they_return_zeroed) {
  BudgetedMemory memory = memory_of(16 * MiB);
  const Lease range = memory.reserve(8 * MiB, Placement::dram, Region::cold).value_or_throw();
  ASSERT_TRUE(memory.commit(range, 0, 8 * MiB).ok());
  std::memset(range.data(), 0xff, 8 * MiB);
  EXPECT_EQ(resident_pages(range.data(), 8 * MiB), 8 * MiB / kPageSize);
  memory.decommit(range, 2 * MiB, 4 * MiB);
  EXPECT_EQ(resident_pages(range.data(), 8 * MiB), 4 * MiB / kPageSize);
  EXPECT_EQ(memory.budget(Placement::dram).used, 4 * MiB);
  ASSERT_TRUE(memory.commit(range, 2 * MiB, kPageSize).ok());
  EXPECT_EQ(range.data()[2 * MiB], std::byte{0});
  EXPECT_EQ(range.data()[2 * MiB - 1], std::byte{0xff});
}

TEST(BudgetedMemory, a_range_that_goes_refunds_what_was_committed) {
  BudgetedMemory memory = memory_of(MiB);
  {
    const Lease range = memory.reserve(MiB, Placement::dram, Region::kv).value_or_throw();
    ASSERT_TRUE(memory.commit(range, kPageSize, 5 * kPageSize).ok());
  }
  EXPECT_EQ(memory.budget(Placement::dram).used, 0u);
  EXPECT_EQ(memory.budget(Placement::dram).peak, 5 * kPageSize);
}

TEST(BudgetedMemory, a_phantom_is_accounted_and_not_there) {
  BudgetedMemory memory = memory_of(Bytes{1} << 50, true);
  const Lease lease = memory.lease(Bytes{1} << 49, Placement::dram, Region::fixed).value_or_throw();
  EXPECT_EQ(lease.data(), nullptr);
  EXPECT_EQ(memory.budget(Placement::dram).used, Bytes{1} << 49);
}

TEST(BudgetedMemory, leases_outlive_the_memory_that_gave_them) {
  Lease lease;
  {
    BudgetedMemory memory = memory_of(MiB);
    lease = memory.lease(kPageSize, Placement::dram, Region::fixed).value_or_throw();
  }
  lease.data()[0] = std::byte{7};
  EXPECT_EQ(lease.data()[0], std::byte{7});
}

TEST(BudgetedMemory, leases_may_be_dropped_on_other_threads_while_the_policy_looks_at_the_budget) {
  BudgetedMemory memory = memory_of(64 * MiB);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      Lease lease = memory.lease(kPageSize, Placement::dram, Region::staging).value_or_throw();
      threads.emplace_back([held = std::move(lease)]() mutable { held = Lease(); });
    }
    EXPECT_LE(memory.budget(Placement::dram).used, 4 * kPageSize);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(memory.budget(Placement::dram).used, 0u);
  }
}

TEST(BudgetedMemoryDeathTest, giving_back_more_than_was_committed_is_our_bug) {
  BudgetedMemory memory = memory_of(MiB);
  const Lease range = memory.reserve(MiB, Placement::dram, Region::kv).value_or_throw();
  ASSERT_TRUE(memory.commit(range, 0, kPageSize).ok());
  EXPECT_DEATH(memory.decommit(range, 0, 2 * kPageSize), "not committed");
  EXPECT_DEATH((void)memory.commit(range, 100, kPageSize), "whole pages");
}

}  // namespace
}  // namespace vitro
