// The integer part of the instruction set of float_stages.hpp and attention_stages.hpp, as HVX of V66 has it.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"

namespace vitro::hexagon {

struct HvxIntegers {
  using Vector = HVX_Vector;
  struct Pair {
    Vector lo, hi;
  };
  static Pair pair(HVX_VectorPair w) { return {Q6_V_lo_W(w), Q6_V_hi_W(w)}; }

  template <int kTable>
  static Pair look_up(Vector indices, Vector tables) {
    return pair(hexagon::look_up<kTable>(indices, tables));
  }
  // Of the bytes whose high nibble is kTable / 2 + 2 (kTable % 2); zero for others.
  template <int kTable>
  static Pair look_up_marked(Vector indices, Vector tables) {
    return pair(Q6_Wh_vlut16_VbVhR(indices, tables, kTable / 2 + 2 * (kTable % 2)));
  }
  template <int kTable>
  static Pair look_up_more(Pair found, Vector indices, Vector tables) {
    return pair(Q6_Wh_vlut16or_WhVbVhR(Q6_W_vcombine_VV(found.hi, found.lo), indices, tables, kTable / 2 + 2 * (kTable % 2)));
  }
  static Vector high_nibbles(Vector v) { return hexagon::high_nibbles(v); }
  static Vector shift_right(Vector v, int bits) { return Q6_Vuh_vlsr_VuhR(v, bits); }
  static Vector splat_half(int half) { return hexagon::splat_half(half); }
  static Vector splat(int32_t word) { return hexagon::splat(word); }
  static Vector add_half(Vector a, Vector b) { return Q6_Vh_vadd_VhVh(a, b); }
  static Vector add_word(Vector a, Vector b) { return Q6_Vw_vadd_VwVw(a, b); }
  static Vector interleave_halves(Vector v) { return Q6_Vh_vshuff_Vh(v); }
  static Vector mask(Vector v, Vector m) { return Q6_V_vand_VV(v, m); }
  static Pair widen_bytes(Vector v) { return pair(Q6_Wh_vsxt_Vb(v)); }
  static Pair widen_unsigned(Vector v) { return pair(Q6_Wuh_vzxt_Vub(v)); }

  static Vector exclusive_or(Vector a, Vector b) { return Q6_V_vxor_VV(a, b); }
  static Vector sign_halves(Vector v) { return Q6_Vh_vasr_VhR(v, 15); }
  static Vector max_half(Vector a, Vector b) { return Q6_Vh_vmax_VhVh(a, b); }
  static Vector min_bits(Vector a, Vector b) { return Q6_Vuh_vmin_VuhVuh(a, b); }
  template <int kBits>
  static Vector shift_half(Vector v) {
    return Q6_Vh_vasl_VhR(v, kBits);
  }
  template <int kBits>
  static Vector shift_word(Vector v) {
    return Q6_Vw_vasl_VwR(v, kBits);
  }
  template <int kBits>
  static Vector shift_word_right(Vector v) {  // with sign
    return Q6_Vw_vasr_VwR(v, kBits);
  }
  static Vector half_of_word(Vector v) { return Q6_Vw_vasr_VwR(v, 1); }
  static Vector load_unaligned(const unsigned char* p) {
    typedef long Unaligned __attribute__((__vector_size__(128))) __attribute__((aligned(1), may_alias));
    return *reinterpret_cast<const Unaligned*>(p);
  }
  static Vector splat_scalar(int half) { return Q6_Vh_vsplat_R(half); }  // of a register, where splat_half() is for constants
  static Vector permute(Vector v, Vector control) { return Q6_V_vdelta_VV(v, control); }
  static Vector first_half(Vector a, Vector b) { return Q6_V_vmux_QVV(Q6_Q_vsetq_R(64), a, b); }  // 64 bytes of a, then those of b
  // The first 32 halfwords go to their offsets from `base`.
  static void scatter_first_half(uintptr_t base, Vector offsets, Vector halves) {
    constexpr int kLastByte = 65535;
    Q6_vscatter_QRMVhV(Q6_Q_vsetq_R(64), base, kLastByte, offsets, halves);
  }
  // The first `count` halfwords, 1 to 64.
  static void scatter_first(uint32_t count, uintptr_t base, Vector offsets, Vector halves) {
    constexpr int kLastByte = 65535;
    Q6_vscatter_QRMVhV(Q6_Q_vsetq2_R(static_cast<int>(2 * count)), base, kLastByte, offsets, halves);
  }
  static Vector shift_bytes(Vector v, int bits) { return Q6_Vub_vlsr_VubR(v, bits); }
  static Pair unpack_bytes(Vector v) { return pair(Q6_Wuh_vunpack_Vub(v)); }
  static Pair unpack_signed(Vector v) { return pair(Q6_Wh_vunpack_Vb(v)); }
  static Pair unpack_halves(Vector v) { return pair(Q6_Wuw_vunpack_Vuh(v)); }
  static Vector rotate(Vector v, int bytes) { return Q6_V_vror_VR(v, bytes); }
  static void gather(Vector* out, const uint16_t* table, Vector offsets) {
    constexpr int kLastByte = 65535;
    Q6_vgather_ARMVh(out, reinterpret_cast<uintptr_t>(table), kLastByte, offsets);
  }
  static Vector where_not_above(Vector bits, Vector limit, Vector v) {
    return Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VuhVuh(bits, limit), Q6_V_vzero(), v);
  }
  // Products of signed halfwords as words: of even lanes in lo, of odd ones in hi.
  static Pair multiply_integers(Vector a, Vector b) { return pair(Q6_Ww_vmpy_VhVh(a, b)); }
  static Vector even_halves(Vector a, Vector b) { return Q6_Vh_vshuffe_VhVh(b, a); }  // lane 2i of a and of b side by side
  static Vector odd_halves(Vector a, Vector b) { return Q6_Vh_vshuffo_VhVh(b, a); }
  static Vector either(Vector a, Vector b) { return Q6_V_vor_VV(a, b); }
  static Vector subtract_word(Vector a, Vector b) { return Q6_Vw_vsub_VwVw(a, b); }
  static Pair interleave_words(Vector a, Vector b) { return pair(Q6_W_vshuff_VVR(b, a, -4)); }
  template <int kBytes>
  static Pair interleave(Vector a, Vector b) {  // pieces of so many bytes by turns
    return pair(Q6_W_vshuff_VVR(b, a, -kBytes));
  }
  static Vector even_bytes(Vector a, Vector b) { return Q6_Vb_vshuffe_VbVb(b, a); }  // byte 2i of a and of b side by side
  static Vector odd_bytes(Vector a, Vector b) { return Q6_Vb_vshuffo_VbVb(b, a); }
  static Pair deal_words(Vector v) { return pair(Q6_W_vdeal_VVR(v, v, -4)); }
  static Vector max_word(Vector a, Vector b) { return Q6_Vw_vmax_VwVw(a, b); }
  static Vector low_halves(Vector a, Vector b) { return Q6_Vh_vpacke_VwVw(b, a); }  // of a's words, then of b's
  static Vector high_halves(Vector a, Vector b) { return Q6_Vh_vpacko_VwVw(b, a); }
  static Vector low_bytes(Vector a, Vector b) { return Q6_Vb_vpacke_VhVh(b, a); }   // of a's halfwords, then of b's
  static Vector sums_of_fours(Vector bytes) { return Q6_Vw_vrmpy_VbVb(bytes, splat(0x01010101)); }
};

// Float types of an instruction set, so that none is taken for another one.
struct HvxFloatTypes : HvxIntegers {
  struct Q16 {
    Vector bits;
  };
  struct Q32 {
    Vector bits;
  };
  struct PairQ32 {
    Q32 lo, hi;
  };

  using HvxIntegers::rotate;
  static Q32 rotate(Q32 a, int bytes) { return {rotate(a.bits, bytes)}; }
};

}  // namespace vitro::hexagon
