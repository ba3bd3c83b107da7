#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {partials [S, N]; sources index32 [B, k] (rows of partials, by ascending expert id); weights f32 [B, k]}; out [B, N]; slice over N.
// y = sum over j ascending of weights[b][j] * partials[sources[b][j]].
struct ExpertSum {
  static constexpr std::string_view kName = "expert_sum";
  static constexpr Arity kArity{.in_min = 3, .in_max = 3, .out = 1, .slice = true, .f16_in = 0b1, .f16_out = true};

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const ExpertSum&, const ExpertSum&) = default;
};

}  // namespace vitro::ops
