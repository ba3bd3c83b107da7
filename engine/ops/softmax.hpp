#pragma once
#include "engine/base/exponential.hpp"
#include "engine/ops/operator.hpp"

namespace vitro {

std::string_view to_string(Exponential exponential);

}  // namespace vitro

namespace vitro::ops {

// in {x [R, N]}; out [R, N]: exp(x) over the sum of its row. Numbers are exp's; how an accelerator makes them is a matter of its time, by
// the entry `softmax.exp_table` of its prices and its like. No step of a model has one: attention, routing and sampling have theirs
// inside.
struct Softmax {
  static constexpr std::string_view kName = "softmax";
  static constexpr Arity kArity{.in_min = 1, .in_max = 1, .out = 1};
  static constexpr bool kReferenceOnCores = true;

  Exponential exponential = Exponential::table;
  std::uint32_t times = 0;  // that it is done over, for its time

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Softmax&, const Softmax&) = default;
};

}  // namespace vitro::ops
