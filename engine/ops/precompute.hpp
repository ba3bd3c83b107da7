#pragma once
#include "engine/ops/operator.hpp"
#include "engine/tensor/format.hpp"

namespace vitro::ops {

// in {x [R, K]}; no out: tables that the unit keeps for products of this x with such weights.
struct Precompute {
  static constexpr std::string_view kName = "precompute";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .f16_in = 0b1};

  Format weights;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Precompute&, const Precompute&) = default;
};

}  // namespace vitro::ops
