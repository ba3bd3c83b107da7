#include "engine/machine/budgeted_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

namespace vitro {
namespace {

std::string_view to_string(Placement placement) {
  constexpr std::string_view kNames[kPlacements] = {"dram", "npu_tcm", "npu_mapped", "gpu"};
  return kNames[static_cast<std::size_t>(placement)];
}

}  // namespace

struct BudgetedMemory::Account {
  std::mutex mutex;
  std::array<Budget, kPlacements> budgets;
  std::array<std::shared_ptr<SharedPages>, kPlacements> shared;  // null: pages are this process's own
  bool phantom = false, locked = false;
  std::uint64_t next_id = 1;
  std::map<std::uint64_t, Bytes> committed;  // of live reserved ranges, by block id: what to give back when they go

  // The budget that limits a placement.
  Budget& limiting(Placement where) {
    const auto i = static_cast<std::size_t>(where);
    return budgets[shared[i] ? static_cast<std::size_t>(Placement::dram) : i];
  }

  Status charge(Placement where, Region region, Bytes size) {
    Budget& limiting = this->limiting(where);
    if (size > limiting.limit - limiting.used) {
      const std::string place = where == Placement::dram ? "" : fmt::format(" in {}", to_string(where));
      return {Code::over_budget, fmt::format("{} more for {}{} do not fit: {} of {} are in use", format_bytes(size), to_string(region),
                                             place, format_bytes(limiting.used), format_bytes(limiting.limit))};
    }
    for_each_budget(where, [&](Budget& budget) {
      const auto r = static_cast<std::size_t>(region);
      budget.used += size;
      budget.peak = std::max(budget.peak, budget.used);
      budget.region_used[r] += size;
      budget.region_peak[r] = std::max(budget.region_peak[r], budget.region_used[r]);
    });
    return {};
  }

  void refund(Placement where, Region region, Bytes size) {
    for_each_budget(where, [&](Budget& budget) {
      budget.used -= size;
      budget.region_used[static_cast<std::size_t>(region)] -= size;
    });
  }

  template <class F>
  void for_each_budget(Placement where, F f) {
    Budget &own = budgets[static_cast<std::size_t>(where)], &limiting = this->limiting(where);
    f(own);
    if (&limiting != &own) f(limiting);
  }
};

namespace {

// Address space without memory behind it; pages appear when they are written. Huge pages would make 4 KiB commits cost
// 2 MiB of real memory.
std::byte* map_pages(Bytes size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// Pages are locked as they come to be used: a range that is never touched takes no memory.
Status lock_pages(std::byte* data, Bytes size) {
  if (::mlock2(data, size, MLOCK_ONFAULT) == 0) return {};
  if ((errno == ENOSYS || errno == EINVAL) && ::mlock(data, size) == 0) return {};  // an old kernel, or an emulated one
  const int error = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string most = limit.rlim_cur == RLIM_INFINITY ? "no limit" : format_bytes(limit.rlim_cur);
  return {Code::no_space,
          fmt::format("memory.lock: {} more can not be locked in DRAM: {} (expected a limit for all of it; `ulimit -l` is {})",
                      format_bytes(size), std::strerror(error), most)};
}

// By its number: munlock() of a program under a sanitizer does nothing.
void unlock_pages(std::byte* data, Bytes size) { ::syscall(SYS_munlock, data, size); }

bool whole_pages(const Lease& range, Bytes offset, Bytes length) {
  return offset % kPageSize == 0 && length % kPageSize == 0 && offset <= range.size() && length <= range.size() - offset;
}

}  // namespace

BudgetedMemory::BudgetedMemory(std::array<Bytes, kPlacements> limits, bool phantom, bool locked) : account_(std::make_shared<Account>()) {
  account_->phantom = phantom;
  account_->locked = locked && !phantom;
  for (std::size_t i = 0; i < kPlacements; ++i) account_->budgets[i].limit = limits[i];
}

BudgetedMemory::~BudgetedMemory() = default;

void BudgetedMemory::share(Placement where, std::shared_ptr<SharedPages> pages) {
  const auto i = static_cast<std::size_t>(where);
  const std::scoped_lock lock(account_->mutex);
  account_->budgets[i].limit = account_->budgets[static_cast<std::size_t>(Placement::dram)].limit;
  account_->shared[i] = std::move(pages);
}

Result<Lease> BudgetedMemory::lease(Bytes size, Placement where, Region region) {
  size = round_up(size, kPageSize);
  Result<Lease> range = reserve(size, where, region);
  if (!range.ok()) return range;
  Status status = commit(range.value(), 0, size);
  if (!status.ok()) return status;
  return range;
}

Result<Lease> BudgetedMemory::reserve(Bytes size, Placement where, Region region) {
  size = std::max(round_up(size, kPageSize), kPageSize);
  std::byte* data = nullptr;
  const std::shared_ptr<SharedPages> pages = account_->phantom ? nullptr : account_->shared[static_cast<std::size_t>(where)];
  if (pages) {
    Result<std::byte*> taken = pages->take(size);
    if (!taken.ok()) return taken.status();
    data = taken.value();
  } else if (!account_->phantom) {
    data = map_pages(size);
    if (data == nullptr) return Status{Code::over_budget, fmt::format("no address space for {}", format_bytes(size))};
    if (size >= 2 * MiB) ::madvise(data, size, MADV_NOHUGEPAGE);
  }
  auto block = std::make_unique<Block>(Block{where, region, size, data, 0});
  const std::scoped_lock lock(account_->mutex);
  block->id = account_->next_id++;
  account_->committed[block->id] = 0;
  return Lease(std::shared_ptr<Block>(block.release(), [account = account_, pages](Block* dead) {
    if (pages) {
      if (account->locked) unlock_pages(dead->data, dead->size);
      pages->give_back(dead->data, dead->size);
    } else if (dead->data != nullptr) {
      ::munmap(dead->data, dead->size);
    }
    const std::scoped_lock guard(account->mutex);
    const auto entry = account->committed.find(dead->id);
    account->refund(dead->placement, dead->region, entry->second);
    account->committed.erase(entry);
    delete dead;
  }));
}

Status BudgetedMemory::commit(const Lease& range, Bytes offset, Bytes length) {
  VITRO_CHECK(whole_pages(range, offset, length), "commit in whole pages of the range");
  const std::scoped_lock lock(account_->mutex);
  Status status = account_->charge(range.placement(), range.block()->region, length);
  if (!status.ok()) return status;
  if (account_->locked && length > 0) status = lock_pages(range.data() + offset, length);
  if (status.ok()) {
    account_->committed[range.id()] += length;
  } else {
    account_->refund(range.placement(), range.block()->region, length);
  }
  return status;
}

void BudgetedMemory::decommit(const Lease& range, Bytes offset, Bytes length) {
  VITRO_CHECK(whole_pages(range, offset, length), "decommit in whole pages of the range");
  if (account_->locked && length > 0) unlock_pages(range.data() + offset, length);  // locked pages are not given back
  if (range.data() != nullptr) {
    const std::shared_ptr<SharedPages>& shared = account_->shared[static_cast<std::size_t>(range.placement())];
    shared ? shared->discard(range.data() + offset, length) : static_cast<void>(::madvise(range.data() + offset, length, MADV_DONTNEED));
  }
  const std::scoped_lock lock(account_->mutex);
  Bytes& committed = account_->committed[range.id()];
  VITRO_CHECK(committed >= length, "decommit of pages that were not committed");
  committed -= length;
  account_->refund(range.placement(), range.block()->region, length);
}

const Budget& BudgetedMemory::budget(Placement where) const {
  const auto i = static_cast<std::size_t>(where);
  const std::scoped_lock lock(account_->mutex);
  return shown_[i] = account_->budgets[i];
}

}  // namespace vitro
