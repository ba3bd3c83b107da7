// The instruction set of float_stages.hpp and attention_stages.hpp in IEEE floats, which V79 has (before it there is qfloat, TTS-NPU
// 5.2.2): results need no conversion. As clang 19 has it for V73 with -mhvx-ieee-fp, the newest that it compiles for; never run.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"

namespace vitro::hexagon {

struct HvxIeeeFloats : HvxFloatTypes {
  static Q16 multiply(Vector a, Vector b) { return {Q6_Vhf_vmpy_VhfVhf(a, b)}; }
  static Q16 multiply(Q16 a, Vector b) { return {Q6_Vhf_vmpy_VhfVhf(a.bits, b)}; }
  static Q16 subtract_half(Vector a, Vector b) { return {Q6_Vhf_vsub_VhfVhf(a, b)}; }
  static Q16 add_half_float(Vector a, Vector b) { return {Q6_Vhf_vadd_VhfVhf(a, b)}; }
  static Q16 add(Q16 a, Vector b) { return {Q6_Vhf_vadd_VhfVhf(a.bits, b)}; }
  static Vector to_half(Q16 a) { return a.bits; }
  static PairQ32 multiply_wide(Vector a, Vector b) {
    const Pair w = pair(Q6_Wsf_vmpy_VhfVhf(a, b));
    return {{w.lo}, {w.hi}};
  }
  static Q32 subtract(Vector a, Vector b) { return {Q6_Vsf_vsub_VsfVsf(a, b)}; }
  static Q32 subtract(Q32 a, Q32 b) { return {Q6_Vsf_vsub_VsfVsf(a.bits, b.bits)}; }
  static Q32 from_float(Vector a) { return {a}; }
  static Q32 multiply(Q32 a, Q32 b) { return {Q6_Vsf_vmpy_VsfVsf(a.bits, b.bits)}; }
  static Q32 add(Q32 a, Q32 b) { return {Q6_Vsf_vadd_VsfVsf(a.bits, b.bits)}; }
  static Vector to_float(Q32 a) { return a.bits; }
  static Vector narrow(PairQ32 a) { return Q6_Vhf_vcvt_VsfVsf(a.lo.bits, a.hi.bits); }
};

}  // namespace vitro::hexagon
