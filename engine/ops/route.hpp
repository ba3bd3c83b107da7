#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {logits [B, E]}; no out; outcome: one ExpertChoice per row; equal logits choose the lower id.
struct Route {
  static constexpr std::string_view kName = "route";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .f16_in = 0b1};

  std::uint32_t k = 0;       // experts that a row chooses
  bool renormalise = false;  // softmax over the chosen k; else over all, chosen kept

  void check(const Checker& check) const;
  void count(Counter& c) const;
  Outcome reference(Reference& r) const;
  friend auto operator<=>(const Route&, const Route&) = default;
};

}  // namespace vitro::ops
