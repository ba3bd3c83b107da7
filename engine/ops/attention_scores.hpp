#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// The first of attention's three parts, which together are Attention to the bit (its file has the pool and the visible positions).
// in {q [B, H, dim]; pool of P heads; block table index32 [B, blocks]}; out s [B, H, T]; slice over P (each with its H / P query heads).
// s[b, h, i] = scale * (16-lane dot of q and k_i), i counted from the first position that row b sees; behind the last one s stays as it is.
// With scales_query the dot of (scale * q) and k_i, where scale * q is stored in float16 if q is. A float16 s is rounded once.
struct AttentionScores {
  static constexpr std::string_view kName = "attention_scores";
  static constexpr Arity kArity{.in_min = 3, .in_max = 3, .out = 1, .slice = true, .f16_in = 0b1, .f16_out = true};

  float scale = 0;
  std::uint32_t window = 0;  // 0: all positions
  std::uint32_t pool_layers = 1;
  bool scales_query = false;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const AttentionScores&, const AttentionScores&) = default;
};

}  // namespace vitro::ops
