// Weights as the worker reads them: where they lie, if their bytes are what its kernels take and their memory is a session's; else a copy.
#pragma once
#include <map>
#include <mutex>
#include <tuple>

#include "engine/host/hexagon_operands.hpp"
#include "engine/host/hexagon_sessions.hpp"
#include "engine/machine/memory.hpp"

namespace vitro {

// Any thread.
class HexagonWeights {
 public:
  struct Placed {
    std::size_t session = 0;
    std::uint32_t at = 0;  // in it
    hexagon::MatmulForm form;
    bool in_rows = false;  // where they lie, by a list of places (hexagon::place_rows)
    Lease copy;            // none: they are shared
  };

  // `memory` has Placement::npu_mapped in the sessions, and pays for copies.
  HexagonWeights(HexagonSessions& sessions, Memory& memory, CodeMatmul products)
      : sessions_(sessions), memory_(memory), products_(products) {}

  // Of a matmul, whose weights stay unchanged from now on: once for each matrix and form. Code::unsupported_shape when the worker does not
  // compute the call, Code::over_budget when no session has room for a copy. Throws ConfigError when the memory budget has none.
  Result<Placed> place(const KernelCall& call);

  // Of a matmul or an accumulate over rows in places, which stay there while it runs, and no longer: nothing is kept.
  // Code::unsupported_shape when the worker does not compute the call, or can not read the memory.
  Result<Placed> find_rows(const KernelCall& call) const;

  // Of matrices placed so far: bytes in the sessions' own copies, and bytes that the worker reads where they lie.
  Bytes copied() const;
  Bytes shared() const;

 private:
  // Lease, offset, slice: what bytes are placed; in which contract, and by which method.
  using Key = std::tuple<std::uint64_t, Bytes, std::uint32_t, std::uint32_t, VariantId, Method>;

  std::optional<Placed> share(const hexagon::MatmulForm& form, const View& weights, Range rows);
  Result<Placed> copy(const hexagon::MatmulForm& form, const View& weights, Range rows);

  HexagonSessions& sessions_;
  Memory& memory_;
  const CodeMatmul products_;
  mutable std::mutex mutex_;  // guards all below
  std::map<Key, Placed> placed_;
  Bytes copied_ = 0, shared_ = 0;
};

}  // namespace vitro
