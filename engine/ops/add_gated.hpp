#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {a [R, N]; b [R, N]; x [R, K]; w f32 [K]}; out [R, N], may alias a or b; slice over N. y = a + sigmoid(x w) b, each row by its own x:
// what a gated shared expert adds to the others (Qwen1.5-MoE).
struct AddGated {
  static constexpr std::string_view kName = "add_gated";
  static constexpr Arity kArity{.in_min = 4, .in_max = 4, .out = 1, .slice = true, .f16_in = 0b111, .f16_out = true};
  static constexpr std::size_t kGateInput = 2;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const AddGated&, const AddGated&) = default;
};

}  // namespace vitro::ops
