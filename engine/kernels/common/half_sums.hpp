// Dot products whose sums are float16, for processors without such instructions: float32 lanes with the bits that those would give. Like
// lanes.hpp, which has the rules, written once over a target's V.
#pragma once
#include "engine/kernels/common/lanes.hpp"

namespace vitro::lanes {

template <class V>
[[gnu::always_inline]] inline V rounded_to_half(V v) {
  Half halves[kLanes];
  v.store(halves);
  return V::load(halves);
}

// a b + c, rounded to float16 once; all three hold float16 numbers. The product is exact in float32. Their sum is rounded to odd: where it
// is not exact, to that neighbour whose last bit is set. No such number lies in the middle of two float16 ones, so a second rounding does
// no harm.
template <class V>
[[gnu::always_inline]] inline V half_fma(V a, V b, V c) {
  const V product = a * b, sum = product + c, part = sum - product;
  const V error = (product - (sum - part)) + (c - part);
  return rounded_to_half(sum.made_odd(error));
}

// Lanes are added 8 apart, 4, 2, 1. Of two float16 numbers the float32 sum, rounded, is the float16 sum.
template <class V>
float half_sum(V lanes) {
  float upper[2 * kLanes] = {};
  for (std::size_t apart = kLanes / 2; apart > 0; apart /= 2) {
    lanes.store(upper);
    lanes = rounded_to_half(lanes + V::load(upper + apart));
  }
  lanes.store(upper);
  return upper[0];
}

template <class V>
void half_sums(Rows<Half> w, Rows<Half> x, float* y, std::size_t y_stride) {
  for (std::size_t r = 0; r < w.count; ++r) {
    for (std::size_t m = 0; m < x.count; ++m) {
      const Half *of_w = w.data + r * w.stride, *of_x = x.data + m * x.stride;
      V sums = V::zero();
      for_lanes(
          x.columns, [&](std::size_t i) { sums = half_fma(V::load(of_w + i), V::load(of_x + i), sums); },
          [&](std::size_t i, std::size_t rest) { sums = half_fma(load_tail<V>(of_w + i, rest), load_tail<V>(of_x + i, rest), sums); });
      y[m * y_stride + r] = half_sum(sums);
    }
  }
}

}  // namespace vitro::lanes
