#pragma once
#include "engine/ops/operator.hpp"

namespace vitro::ops {

// in {W [N, K]; x f32 [R, K]; of W in q4_nibbles its scales f16 [N, K/32]; optional bias f32 [N]}; out [R, N]; slice over N (a multiple of
// kTileRows unless it ends at N, for Layout::tiled). Scales stand in row order: row offsets are of W alone.
struct Matmul {
  static constexpr std::string_view kName = "matmul";
  static constexpr Arity kArity{.in_min = 2,
                                .in_max = 3,
                                .out = 1,
                                .slice = true,
                                .rows = true,
                                .row_offsets = true,
                                .weights = true,
                                .tiled = true,
                                .f16_in = 0b10,
                                .f16_out = true};

  bool precomputed = false;  // Method::lut: a `precompute` of the same x came before it on this unit

  void check(const Checker& check) const;
  void count(Counter& c) const;
  void reference(Reference& r) const;
  friend auto operator<=>(const Matmul&, const Matmul&) = default;
};

}  // namespace vitro::ops
