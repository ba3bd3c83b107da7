#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {x [R, N]}; out [R, N] of the same or another Format. With rows and offsets, R of each: row i is taken rows[i] kRowOffsetUnit behind
// x's offset and put offsets[i] behind the output's, in any order; no two offsets overlap. Both sides are f32 then, whatever the bytes
// mean.
struct Copy {
  static constexpr std::string_view kName = "copy";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .out = 1, .rows = true, .row_offsets = true};

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Copy&, const Copy&) = default;
};

}  // namespace vitro::ops
