// Memory with a byte budget per placement, the same on host and in sim. Real or phantom.
#pragma once
#include <map>

#include "engine/machine/memory.hpp"

namespace vitro {

// Where the pages of a placement come from that a device maps as well: memory that both share. Any thread.
class SharedPages {
 public:
  virtual ~SharedPages() = default;
  // `size` bytes (whole pages), aligned to kPageSize, zeroed, and not resident before they are used. Code::over_budget when it has no room.
  virtual Result<std::byte*> take(Bytes size) = 0;
  // The system has the memory back. Requires: of take().
  virtual void give_back(std::byte* data, Bytes size) = 0;
  // Whole pages of what was taken and stays taken: zeroed, and the system has the memory back where it can.
  virtual void discard(std::byte* data, Bytes size) = 0;
};

// Memory is leased and committed, and leases are dropped, on any thread (an operation that ends on a worker); all else belongs to one.
class BudgetedMemory final : public Memory {
 public:
  // limits: bytes per placement; a placement with limit 0 does not exist. phantom: account only, data() is null.
  // locked: pages that are used stay in DRAM until they are given back (mlock2); what the system refuses to lock is Code::no_space.
  BudgetedMemory(std::array<Bytes, kPlacements> limits, bool phantom, bool locked = false);
  ~BudgetedMemory() override;

  // Leases of `where` are `pages` from now on, which lie in DRAM: they are charged to its budget, and shown in that of `where`, too.
  void share(Placement where, std::shared_ptr<SharedPages> pages);

  Result<Lease> lease(Bytes size, Placement where, Region region) override;
  Result<Lease> reserve(Bytes size, Placement where, Region region) override;
  Status commit(const Lease& range, Bytes offset, Bytes length) override;
  void decommit(const Lease& range, Bytes offset, Bytes length) override;
  const Budget& budget(Placement where) const override;

 private:
  struct Account;
  std::shared_ptr<Account> account_;               // outlives this object while leases do
  mutable std::array<Budget, kPlacements> shown_;  // what budget() last saw: a worker may drop a lease meanwhile
};

}  // namespace vitro
