#include <fmt/format.h>

#include <algorithm>

#include "engine/faults/fault_parts.hpp"

namespace vitro {

Status FaultyMemory::refusal(Bytes size, Placement where) {
  pressure_ = 0;
  Status refused;
  const auto [n, faults] = state_.next(FaultTarget::lease);
  for (const Fault* fault : faults) {
    state_.fired(fault->kind);
    if (fault->kind == FaultKind::memory_pressure) {
      pressure_ = std::max(pressure_, fault->bytes);
    } else {
      refused = {Code::over_budget, fmt::format("{} do not fit: lease_error (a fault on purpose, lease {})", format_bytes(size), n)};
    }
  }
  if (!refused.ok() || pressure_ == 0 || where != Placement::dram) return refused;
  const Budget& left = budget(where);
  if (size <= left.limit - left.used) return {};
  return {Code::over_budget, fmt::format("{} more do not fit: {} of {} are in use (memory_pressure, a fault on purpose, lease {})",
                                         format_bytes(size), format_bytes(left.used), format_bytes(left.limit), n)};
}

Result<Lease> FaultyMemory::lease(Bytes size, Placement where, Region region) {
  Status refused = refusal(round_up(size, kPageSize), where);
  if (!refused.ok()) return refused;
  return inner_.lease(size, where, region);
}

Status FaultyMemory::commit(const Lease& range, Bytes offset, Bytes length) {
  Status refused = refusal(length, range.placement());
  return refused.ok() ? inner_.commit(range, offset, length) : refused;
}

const Budget& FaultyMemory::budget(Placement where) const {
  Budget& shown = shown_[static_cast<std::size_t>(where)] = inner_.budget(where);
  if (where == Placement::dram && !state_.healed) {
    shown.limit = std::max(shown.limit - std::min(shown.limit, pressure_), shown.used);
  }
  return shown;
}

}  // namespace vitro
