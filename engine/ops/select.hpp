#pragma once
#include <optional>

#include "engine/ops/activation.hpp"
#include "engine/ops/operator.hpp"

namespace vitro {

// What select reads: the truth, or a guess at it. It tells a Function that draws or replays which of the two is asked for.
enum class SelectOf : std::uint8_t { gate, predictor };

}  // namespace vitro

namespace vitro::ops {

// in {scores [R, N]}; no out; slice over N; outcome: the ActiveSet of neurons n with |act(scores[r][n])| > threshold, without an activation
// scores[r][n] > threshold.
struct Select {
  static constexpr std::string_view kName = "select";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .slice = true, .rows = true, .f16_in = 0b1};

  float threshold = 0;
  std::optional<Activation> activation;
  SelectOf of = SelectOf::gate;

  void check(const Checker& check) const;
  void count(Counter& c) const;
  Outcome reference(Reference& r) const;
  friend auto operator<=>(const Select&, const Select&) = default;
};

}  // namespace vitro::ops
