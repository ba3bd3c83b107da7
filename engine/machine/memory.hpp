// Memory under a byte budget. It never waits and never evicts: "over budget" is an answer that the policy handles.
#pragma once
#include <array>

#include "engine/base/status.hpp"
#include "engine/tensor/lease.hpp"

namespace vitro {

struct Budget {
  Bytes limit = 0, used = 0, peak = 0;
  std::array<Bytes, kRegions> region_used{}, region_peak{};
};

class Memory {
 public:
  virtual ~Memory() = default;

  // `size` bytes, aligned to kPageSize and zeroed. Code::over_budget when they do not fit now, another code when the
  // system refuses them.
  virtual Result<Lease> lease(Bytes size, Placement where, Region region) = 0;

  // An address range of which nothing is resident yet: it costs no budget until commit(). For weights that a policy
  // loads piecewise but kernels want to see in one piece, and for a KV pool that grows.
  virtual Result<Lease> reserve(Bytes size, Placement where, Region region) = 0;
  // Makes [offset, offset + length) of a reserved range usable and charges it. Requires: page-aligned, not committed.
  virtual Status commit(const Lease& range, Bytes offset, Bytes length) = 0;
  // Gives the bytes back, to the budget and to the operating system. Requires: committed.
  virtual void decommit(const Lease& range, Bytes offset, Bytes length) = 0;

  // As of this call; call again for newer numbers.
  virtual const Budget& budget(Placement where) const = 0;
};

}  // namespace vitro
