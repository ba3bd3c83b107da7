#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// How a router's logits become weights. `sparse_mixer` (Liu et al. 2024, "GRIN"; Phi-3.5-MoE's code, as it is without training): experts
// are chosen one after the other, the largest logit first. A choice's weight is its softmax over what has not been chosen yet and competes
// with it: (m - l) / max(|l|, m) <= 2 * kSparseMixerBand, m being the logit of the choice.
enum class Scores : std::uint8_t { softmax, sparse_mixer };
inline constexpr float kSparseMixerBand = 0.01f;  // router_jitter_noise of Phi-3.5-MoE's configuration; no GGUF key has it

// Whether logit l competes with the choice m. Requires: l <= m.
template <class T>
bool competes(T l, T m) {
  const T size = l < 0 ? -l : l;
  return m - l <= 2 * T{kSparseMixerBand} * (size > m ? size : m);
}

// in {logits [B, E]}; no out; outcome: one ExpertChoice per row; equal logits choose the lower id.
struct Route {
  static constexpr std::string_view kName = "route";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .f16_in = 0b1};

  std::uint32_t k = 0;       // experts that a row chooses
  bool renormalise = false;  // softmax over the chosen k; else over all, chosen kept. Of Scores::softmax alone
  Scores scores = Scores::softmax;
  float scale = 1;  // times every weight (DeepSeek's routed_scaling_factor)

  void check(const Checker& check) const;
  void count(Counter& c) const;
  Outcome reference(Reference& r) const;
  friend auto operator<=>(const Route&, const Route&) = default;
};

}  // namespace vitro::ops
