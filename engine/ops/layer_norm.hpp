#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {x [R, D]; weight f32 [D]; bias f32 [D]}; out as x, may alias it.
// Each row (Ba et al. 2016): c = x - mean(x), y = c / sqrt(mean(c^2) + eps) * weight + bias.
struct LayerNorm {
  static constexpr std::string_view kName = "layer_norm";
  static constexpr Arity kArity{.in_min = 3, .in_max = 3, .out = 1, .f16_in = 0b1, .f16_out = true};

  float eps = 0;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const LayerNorm&, const LayerNorm&) = default;
};

}  // namespace vitro::ops
