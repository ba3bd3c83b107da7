#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {x [R, N]}; out [R, 1]: 1 / sqrt(mean of squares of the row + eps). The first part of an RmsNorm.
struct InverseRms {
  static constexpr std::string_view kName = "inverse_rms";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .out = 1, .f16_in = 0b1};

  float eps = 1e-5f;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const InverseRms&, const InverseRms&) = default;
};

}  // namespace vitro::ops
