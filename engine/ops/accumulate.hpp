#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {Wt [N, D] of any Format, Layout::rows; h [R, N]; of q4_nibbles the scales f16 [N, D/32]}; out [R, D]; slice over N (the neurons).
// y[r] = sum over the named n ascending, one fused multiply-add each, of h[r][n] * Wt[n], dequantised exactly. A neuron whose h is 0 in a
// row adds nothing to that row. Where variant::adds_in_int8: KernelSet::placed_coefficients_q4_0 over the others.
struct Accumulate {
  static constexpr std::string_view kName = "accumulate";
  static constexpr Arity kArity{.in_min = 2,
                                .in_max = 2,
                                .out = 1,
                                .slice = true,
                                .rows = true,
                                .row_offsets = true,
                                .weights = true,
                                .f16_in = 0b10,
                                .f16_out = true};

  bool continues = false;  // on top of what y holds; else from zero

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Accumulate&, const Accumulate&) = default;
};

}  // namespace vitro::ops
