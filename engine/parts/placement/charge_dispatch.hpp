// What the policy pays for a chain that it hands to a unit: each call is built anew.
#pragma once
#include "engine/machine/clock.hpp"
#include "engine/machine/compute_unit.hpp"

namespace vitro {

inline void charge_dispatch(Clock& clock, const Chain& chain) {
  clock.charge(PolicyWork::plan_step, static_cast<std::uint32_t>(chain.size()));
  clock.charge(PolicyWork::submit, 1);
}

}  // namespace vitro
