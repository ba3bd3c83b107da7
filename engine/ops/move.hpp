#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {x f32}; out f32, both of any shape. Copies the elements that KernelCall::regions name, counted from the first element of either
// side. No element of the output is written twice, and x and the output share no memory.
struct Move {
  static constexpr std::string_view kName = "move";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .out = 1, .regions = true, .f16_in = 0b1, .f16_out = true};

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Move&, const Move&) = default;
};

}  // namespace vitro::ops
