// Memory with a byte budget per placement, the same on host and in sim. Real or phantom.
#pragma once
#include <map>

#include "engine/machine/memory.hpp"

namespace vitro {

// Not thread-safe but for one thing: leases may be dropped on any thread (an operation that ends on a worker).
class BudgetedMemory final : public Memory {
 public:
  // limits: bytes per placement; a placement with limit 0 does not exist. phantom: account only, data() is null.
  // locked: pages that are used stay in DRAM until they are given back (mlock2); what the system refuses to lock is Code::no_space.
  BudgetedMemory(std::array<Bytes, kPlacements> limits, bool phantom, bool locked = false);
  ~BudgetedMemory() override;

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
