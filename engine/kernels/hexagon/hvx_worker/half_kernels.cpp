// fp16 products as IEEE has them, in HVX integers: what a phone does in one qfloat product and one conversion, which the emulator lacks.
// Not priced: the compiled qfloat form is (float_kernels.cpp).
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/multiply_half.hpp"

namespace vitro::hexagon {
namespace {

// Words of a half's magnitude: its significand, with the leading one of normal numbers, and its exponent, at least 1.
struct Magnitude {
  HVX_Vector significand, exponent;
};
Magnitude magnitude(HVX_Vector words) {
  const HVX_Vector one = splat(1), field = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(words, 10), splat(31)),
                   fraction = Q6_V_vand_VV(words, splat(0x3ff));
  const HVX_VectorPred normal = Q6_Q_vcmp_gt_VwVw(field, Q6_V_vzero());
  return {Q6_V_vmux_QVV(normal, Q6_V_vor_VV(fraction, splat(0x400)), fraction), Q6_Vw_vmax_VwVw(field, one)};
}

// Of 32 halves in the low parts of words: to the nearest, ties to even; finite operands.
HVX_Vector product(HVX_Vector a, HVX_Vector b) {
  const Magnitude x = magnitude(a), y = magnitude(b);
  const HVX_Vector one = splat(1), zero = Q6_V_vzero();
  const HVX_Vector exact = Q6_V_lo_W(Q6_Wuw_vmpy_VuhVuh(x.significand, y.significand));  // below 2^22, in even halves
  const HVX_Vector zeros = Q6_Vuw_vcl0_Vuw(exact), top = Q6_Vw_vasl_VwVw(exact, zeros);  // leading one at bit 31
  // exact * 2^(ex + ey - 50); the exponent field of its leading bit, before rounding, may be 0 or less: then more bits go.
  const HVX_Vector field = Q6_Vw_vsub_VwVw(Q6_Vw_vadd_VwVw(x.exponent, y.exponent), Q6_Vw_vadd_VwVw(zeros, splat(50 - 31 - 15)));
  const HVX_Vector missing = Q6_Vw_vmax_VwVw(Q6_Vw_vsub_VwVw(one, field), zero);
  // Bits 31 .. 21 stay. One bit more is kept for the half, and what is behind it counts as sticky.
  const HVX_Vector drop = Q6_Vw_vmin_VwVw(Q6_Vw_vadd_VwVw(missing, splat(20)), splat(31));
  const HVX_Vector kept = Q6_Vw_vlsr_VwVw(top, drop);
  const HVX_VectorPred inexact = Q6_Q_not_Q(Q6_Q_vcmp_eq_VwVw(Q6_Vw_vasl_VwVw(kept, drop), top));
  const HVX_Vector sticky = Q6_V_vmux_QVV(inexact, one, zero);
  const HVX_Vector odd = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(kept, 1), one);
  const HVX_Vector rounded = Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(kept, Q6_V_vor_VV(sticky, odd)), 1);
  const HVX_Vector bits = Q6_Vw_vadd_VwVw(rounded, Q6_Vw_vasl_VwR(Q6_Vw_vmax_VwVw(Q6_Vw_vsub_VwVw(field, one), zero), 10));
  const HVX_VectorPred none = Q6_Q_or_QQ(Q6_Q_vcmp_eq_VwVw(exact, zero), Q6_Q_vcmp_gt_VwVw(missing, splat(11)));  // below half a step
  const HVX_Vector finite = Q6_V_vmux_QVV(none, zero, Q6_Vw_vmin_VwVw(bits, splat(0x7c00)));
  return Q6_V_vor_VV(finite, Q6_V_vand_VV(Q6_V_vxor_VV(a, b), splat(0x8000)));
}

}  // namespace

HVX_Vector multiply_half(HVX_Vector a, HVX_Vector b) {
  const HVX_Vector low = splat(0xffff);
  const HVX_Vector even = product(Q6_V_vand_VV(a, low), Q6_V_vand_VV(b, low));
  const HVX_Vector odd = product(Q6_Vuw_vlsr_VuwR(a, 16), Q6_Vuw_vlsr_VuwR(b, 16));
  return Q6_V_vor_VV(even, Q6_Vw_vasl_VwR(odd, 16));
}

// Integers of at most 11 bits as halves, exactly.
static HVX_Vector halves_of(HVX_Vector q) {
  const HVX_Vector magnitude = Q6_Vh_vabs_Vh(q), zeros = Q6_Vuh_vcl0_Vuh(magnitude);
  const HVX_Vector fraction = Q6_V_vand_VV(Q6_Vuh_vlsr_VuhR(Q6_Vh_vasl_VhVh(magnitude, zeros), 5), splat_half(0x3ff));
  const HVX_Vector exponent = Q6_Vh_vasl_VhR(Q6_Vh_vsub_VhVh(splat_half(15 + 15), zeros), 10);  // of the leading one at bit 15
  const HVX_VectorPred none = Q6_Q_vcmp_eq_VhVh(magnitude, Q6_V_vzero());
  const HVX_Vector bits = Q6_V_vor_VV(Q6_V_vor_VV(exponent, fraction), Q6_V_vand_VV(q, splat_half(0x8000)));
  return Q6_V_vmux_QVV(none, Q6_V_vzero(), bits);
}

extern "C" [[gnu::noinline]] void float_dequantise_bytes(const unsigned char* bytes, const uint16_t* scales, uint32_t tiles, uint16_t* w) {
  const HVX_Vector *in = vectors_at(bytes), *s = vectors_at(scales);
  HVX_Vector* out = vectors_at(w);
  for (uint32_t t = 0; t < tiles; ++t, ++s) {
    for (uint32_t v = 0; v < kTileElements / kVectorBytes; ++v, out += 2) {
      const HVX_VectorPair q = Q6_Wh_vsxt_Vb(*in++);
      out[0] = multiply_half(halves_of(Q6_V_lo_W(q)), *s);
      out[1] = multiply_half(halves_of(Q6_V_hi_W(q)), *s);
    }
  }
}

extern "C" [[gnu::noinline]] void float_scale(uint16_t* q, const uint16_t* scales, uint32_t every, uint32_t vectors) {
  HVX_Vector* v = vectors_at(q);
  const HVX_Vector* s = vectors_at(scales);
  for (uint32_t i = 0, left = every; i < vectors; ++i, ++v) {
    const HVX_Vector scale = *s;
    if (--left == 0) {
      left = every;
      ++s;
    }
    *v = multiply_half(*v, scale);
  }
}

// In pieces that scratch holds: the scales spread out are as many halves as the weights.
extern "C" void float_dequantise_tiles(const unsigned char* nibbles, const uint16_t* scales, const uint16_t* table, uint32_t vectors,
                                       uint16_t* w) {
  alignas(kVectorBytes) uint16_t spread[8 * 2 * kVectorBytes];  // each thread's own
  for (uint32_t v = 0; v < vectors; v += 8, nibbles += 8 * kVectorBytes, scales += 64, w += 8 * 2 * kVectorBytes) {
    hvx_dequantise(nibbles, scales, table, 8, w, spread);
    float_scale(w, spread, 1, 32);
  }
}

}  // namespace vitro::hexagon
