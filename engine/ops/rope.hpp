#pragma once
#include "engine/ops/operator.hpp"

namespace vitro {

enum class RopeStyle : std::uint8_t { interleaved, half_split };  // pairs (2i, 2i+1), or (i, i + dims/2)

}  // namespace vitro

namespace vitro::ops {

// in {x [B, heads, dim]; optional f32 [dims/2] frequency divisors}; out the same view (in place); slice over heads.
// Pair i turns by position * position_scale * base^(-2i/dims) / divisor_i.
struct Rope {
  static constexpr std::string_view kName = "rope";
  static constexpr Arity kArity{.in_min = 1, .in_max = 2, .out = 1, .slice = true, .f16_in = 0b1, .f16_out = true};

  float base = 0;
  std::uint32_t dims = 0;  // of a head that turn: even
  RopeStyle style = RopeStyle::interleaved;
  float position_scale = 0;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Rope&, const Rope&) = default;
};

}  // namespace vitro::ops
