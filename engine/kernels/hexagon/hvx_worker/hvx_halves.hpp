// HvxIeee with products of fp16 that are rounded once (multiply_half.hpp).
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx_ieee.hpp"
#include "engine/kernels/hexagon/hvx_worker/multiply_half.hpp"

namespace vitro::hexagon {

struct HvxHalves : HvxIeee {
  using HvxIeee::multiply;
  static Q16 multiply(Vector a, Vector b) { return {multiply_half(a, b)}; }
  static Q16 multiply(Q16 a, Vector b) { return {multiply_half(a.bits, b)}; }
};

}  // namespace vitro::hexagon
