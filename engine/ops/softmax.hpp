#pragma once
#include "engine/ops/operator.hpp"

namespace vitro {

// How an accelerator makes exp of a softmax that stands alone: its price table's name is `softmax.exp_table` and its like
// (TTS-NPU 5.2.1). Numbers are exp's, whatever way is taken.
enum class Exponential : std::uint8_t { table, f16, f32 };
std::string_view to_string(Exponential exponential);

}  // namespace vitro

namespace vitro::ops {

// in {x [R, N]}; out [R, N]: exp(x) over the sum of its row. No step of a model has one: attention, routing and sampling have theirs
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
