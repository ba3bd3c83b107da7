#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// The second of attention's three parts: a softmax that leaves its division to the third, as Attention has it.
// in {s [B, H, T]}; out e [B, H, T]; slice over H. e_i = exp(s_i - max s) over the positions that row b sees; behind them e stays as it is.
struct AttentionWeights {
  static constexpr std::string_view kName = "attention_weights";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .out = 1, .slice = true, .f16_in = 0b1};

  std::uint32_t window = 0;  // 0: all positions

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const AttentionWeights&, const AttentionWeights&) = default;
};

}  // namespace vitro::ops
