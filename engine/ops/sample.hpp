#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {logits [B, V]; uniforms f32 [B]}; no out; outcome TokenChoice.
struct Sample {
  static constexpr std::string_view kName = "sample";
  static constexpr Arity kArity{.in_min = 2, .in_max = 2};

  float temperature = 0;    // 0: arg-max, the lowest id wins a tie
  std::uint32_t top_k = 0;  // 0: all
  float top_p = 0;          // in (0, 1], 1: all; ignored at temperature 0

  void check(const Checker& check) const;
  void count(Counter& c) const;
  Outcome reference(Reference& r) const;
  friend auto operator<=>(const Sample&, const Sample&) = default;
};

}  // namespace vitro::ops
