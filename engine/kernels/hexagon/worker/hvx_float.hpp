// The instruction set of float_stages.hpp as HVX of V68 and later has it.
#pragma once
#include "engine/kernels/hexagon/worker/hvx.hpp"

namespace vitro::hexagon {

struct Hvx {
  using Vector = HVX_Vector;
  struct Pair {
    Vector lo, hi;
  };
  struct Q16 {
    Vector bits;
  };
  struct Q32 {
    Vector bits;
  };
  struct PairQ32 {
    Q32 lo, hi;
  };
  static Pair pair(HVX_VectorPair w) { return {Q6_V_lo_W(w), Q6_V_hi_W(w)}; }

  template <int kTable>
  static Pair look_up(Vector indices, Vector tables) {
    return pair(hexagon::look_up<kTable>(indices, tables));
  }
  static Vector high_nibbles(Vector v) { return hexagon::high_nibbles(v); }
  static Vector splat_half(int half) { return hexagon::splat_half(half); }
  static Vector splat(int32_t word) { return hexagon::splat(word); }
  static Vector add_half(Vector a, Vector b) { return Q6_Vh_vadd_VhVh(a, b); }
  static Vector add_word(Vector a, Vector b) { return Q6_Vw_vadd_VwVw(a, b); }
  static Vector interleave_halves(Vector v) { return Q6_Vh_vshuff_Vh(v); }
  static Vector mask(Vector v, Vector m) { return Q6_V_vand_VV(v, m); }
  static Pair widen_bytes(Vector v) { return pair(Q6_Wh_vsxt_Vb(v)); }

  static Q16 multiply(Vector a, Vector b) { return {Q6_Vqf16_vmpy_VhfVhf(a, b)}; }
  static Q16 multiply(Q16 a, Vector b) { return {Q6_Vqf16_vmpy_Vqf16Vhf(a.bits, b)}; }
  static Q16 subtract_half(Vector a, Vector b) { return {Q6_Vqf16_vsub_VhfVhf(a, b)}; }
  static Vector to_half(Q16 a) { return Q6_Vhf_equals_Vqf16(a.bits); }
  static PairQ32 multiply_wide(Vector a, Vector b) {
    const Pair w = pair(Q6_Wqf32_vmpy_VhfVhf(a, b));
    return {{w.lo}, {w.hi}};
  }
  static Q32 subtract(Vector a, Vector b) { return {Q6_Vqf32_vsub_VsfVsf(a, b)}; }
  static Q32 from_float(Vector a) { return {Q6_Vqf32_vadd_VsfVsf(a, Q6_V_vzero())}; }
  static Q32 multiply(Q32 a, Q32 b) { return {Q6_Vqf32_vmpy_Vqf32Vqf32(a.bits, b.bits)}; }
  static Q32 add(Q32 a, Q32 b) { return {Q6_Vqf32_vadd_Vqf32Vqf32(a.bits, b.bits)}; }
  static Vector to_float(Q32 a) { return Q6_Vsf_equals_Vqf32(a.bits); }
};

}  // namespace vitro::hexagon
