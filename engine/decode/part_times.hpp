// How long the policy waited for each part of its steps, on its own clock: parts follow each other, so they add up to the steps.
#pragma once
#include <array>
#include <string_view>

#include "engine/base/units.hpp"

namespace vitro {

enum class Part : std::uint8_t {
  attention,
  router,
  experts,
  combine,
  ffn,
  other
};  // combine: the weighted sum of experts, and the residual
inline constexpr std::array<std::string_view, 6> kPartNames{"attention", "router", "experts", "combine", "ffn", "other"};

using PartTimes = std::array<Picoseconds, kPartNames.size()>;

}  // namespace vitro
