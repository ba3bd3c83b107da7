#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {partials [P, R, N]}; out [R, N]; slice over N; adds p = 0, 1, ... in order.
struct Reduce {
  static constexpr std::string_view kName = "reduce";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .out = 1, .slice = true, .f16_in = 0b1, .f16_out = true};

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Reduce&, const Reduce&) = default;
};

}  // namespace vitro::ops
