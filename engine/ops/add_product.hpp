#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {W [N, K] of any Format, Layout::rows; x f32 [R, K]}; out y [R, N]; slice over N. y = fma(scale, x W^T, y), or scale (x W^T) where
// nothing is to be added to; the product is that of the float contract. What an adapter adds to the product of its base
// (engine/graph/lora_pass.hpp).
struct AddProduct {
  static constexpr std::string_view kName = "add_product";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2, .out = 1, .slice = true, .rows = true, .f16_in = 0b10, .f16_out = true};

  float scale = 1;
  bool continues = true;  // on top of what y holds; else from zero

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const AddProduct&, const AddProduct&) = default;
};

}  // namespace vitro::ops
