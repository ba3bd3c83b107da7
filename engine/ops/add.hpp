#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {a [R, N]; b [R, N]}; out [R, N] = a + b, may alias a; slice over N.
struct Add {
  static constexpr std::string_view kName = "add";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2, .out = 1, .slice = true, .f16_in = 0b11, .f16_out = true};

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Add&, const Add&) = default;
};

}  // namespace vitro::ops
