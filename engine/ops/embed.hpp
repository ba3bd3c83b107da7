#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {table [V, D] of any Format, Layout::rows; tokens index32 [B]}; out [B, D].
struct Embed {
  static constexpr std::string_view kName = "embed";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2, .out = 1, .f16_out = true};

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Embed&, const Embed&) = default;
};

}  // namespace vitro::ops
