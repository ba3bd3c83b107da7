#pragma once
#include "engine/ops/activation.hpp"
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {gate [R, N]; up [R, N]}; out [R, N]; slice over N. h = act(gate) * up. With report_active, the outcome is the ActiveSet of neurons n
// in the slice with act(gate[r][n]) != 0.
struct Glu {
  static constexpr std::string_view kName = "glu";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2, .out = 1, .slice = true, .rows = true, .f16_in = 0b11, .f16_out = true};

  Activation activation = Activation::silu;
  bool report_active = false;  // for recorders and policies

  void check(const Checker& check) const;
  void count(Counter& c) const;
  Outcome reference(Reference& r) const;
  friend auto operator<=>(const Glu&, const Glu&) = default;
};

}  // namespace vitro::ops
