#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {x [R, D] or [R, heads, D]; weight f32 [D]}; out as x, may alias it; slice over heads, where there are heads.
// Each run of D: y = x / sqrt(mean(x^2) + eps) * weight.
struct RmsNorm {
  static constexpr std::string_view kName = "rms_norm";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2, .out = 1, .slice = true, .f16_in = 0b1, .f16_out = true};

  float eps = 0;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const RmsNorm&, const RmsNorm&) = default;
};

}  // namespace vitro::ops
