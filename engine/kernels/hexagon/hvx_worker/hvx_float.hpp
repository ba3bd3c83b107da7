// The instruction set of float_stages.hpp and attention_stages.hpp as HVX of V68 and later has it.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"

namespace vitro::hexagon {

struct Hvx : HvxFloatTypes {
  static Q16 multiply(Vector a, Vector b) { return {Q6_Vqf16_vmpy_VhfVhf(a, b)}; }
  static Q16 multiply(Q16 a, Vector b) { return {Q6_Vqf16_vmpy_Vqf16Vhf(a.bits, b)}; }
  static Q16 subtract_half(Vector a, Vector b) { return {Q6_Vqf16_vsub_VhfVhf(a, b)}; }
  static Q16 add_half_float(Vector a, Vector b) { return {Q6_Vqf16_vadd_VhfVhf(a, b)}; }
  static Q16 add(Q16 a, Vector b) { return {Q6_Vqf16_vadd_Vqf16Vhf(a.bits, b)}; }
  static Vector to_half(Q16 a) { return Q6_Vhf_equals_Vqf16(a.bits); }
  static PairQ32 multiply_wide(Vector a, Vector b) {
    const Pair w = pair(Q6_Wqf32_vmpy_VhfVhf(a, b));
    return {{w.lo}, {w.hi}};
  }
  static Q32 subtract(Vector a, Vector b) { return {Q6_Vqf32_vsub_VsfVsf(a, b)}; }
  static Q32 subtract(Q32 a, Q32 b) { return {Q6_Vqf32_vsub_Vqf32Vqf32(a.bits, b.bits)}; }
  static Q32 from_float(Vector a) { return {Q6_Vqf32_vadd_VsfVsf(a, Q6_V_vzero())}; }
  static Q32 multiply(Q32 a, Q32 b) { return {Q6_Vqf32_vmpy_Vqf32Vqf32(a.bits, b.bits)}; }
  static Q32 add(Q32 a, Q32 b) { return {Q6_Vqf32_vadd_Vqf32Vqf32(a.bits, b.bits)}; }
  static Vector to_float(Q32 a) { return Q6_Vsf_equals_Vqf32(a.bits); }
  static Vector narrow(PairQ32 a) { return Q6_Vhf_equals_Wqf32(Q6_W_vcombine_VV(a.hi.bits, a.lo.bits)); }
};

}  // namespace vitro::hexagon
