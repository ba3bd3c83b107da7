#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {x [R, D]; index32 [S]}; out [S, D]: the rows that the indices name. With `columns`: out [R, S], the columns that they name, and x and
// out share no memory.
struct Gather {
  static constexpr std::string_view kName = "gather";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2, .out = 1, .f16_in = 0b1, .f16_out = true};

  bool columns = false;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Gather&, const Gather&) = default;
};

}  // namespace vitro::ops
