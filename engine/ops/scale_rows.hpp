#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {x [R, N]; s [R, 1]; w [N]}; out [R, N]: (x s) w, each row by its own s. The second part of an RmsNorm.
struct ScaleRows {
  static constexpr std::string_view kName = "scale_rows";
  static constexpr Arity kArity{.in_min = 3, .in_max = 3, .out = 1, .f16_in = 0b1, .f16_out = true};

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const ScaleRows&, const ScaleRows&) = default;
};

}  // namespace vitro::ops
