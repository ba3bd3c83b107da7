#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// The last of attention's three parts (attention_scores.hpp, attention_weights.hpp).
// in {e f32 [B, H, T]; pool of P heads; block table index32 [B, blocks]}; out y [B, H, dim]; slice over P (each with its H / P query
// heads). y = (sum over i ascending, fused, of e_i v_i) / (16-lane sum of e_i), i counted from the first position that row b sees.
struct AttentionValues {
  static constexpr std::string_view kName = "attention_values";
  static constexpr Arity kArity{.in_min = 3, .in_max = 3, .out = 1, .slice = true, .f16_out = true};

  std::uint32_t window = 0;  // 0: all positions
  std::uint32_t pool_layers = 1;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const AttentionValues&, const AttentionValues&) = default;
};

}  // namespace vitro::ops
