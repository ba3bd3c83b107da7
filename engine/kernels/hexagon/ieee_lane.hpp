// The part of the instruction set of attention_stages.hpp that its powers of two take, for one lane in IEEE floats: what every lane of the
// worker has (hvx_worker/hvx_ieee.hpp), so that cores have its bits.
#pragma once
#include "engine/kernels/hexagon/half.hpp"

namespace vitro::hexagon {

struct IeeeLane {
  using Vector = uint32_t;  // a half, or the bits of a float
  struct Q16 {
    uint16_t bits;
  };
  struct Q32 {
    float value;
  };
  struct PairQ32 {
    Q32 lo, hi;  // a lane has no second half: hi is unused
  };

  static Vector splat_half(int half) { return static_cast<Vector>(half); }
  static Vector splat(int32_t word) { return static_cast<Vector>(word); }
  static Vector add_half(Vector a, Vector b) { return (a + b) & 0xffffu; }
  static Vector add_word(Vector a, Vector b) { return a + b; }
  static Vector min_bits(Vector a, Vector b) { return a < b ? a : b; }
  template <int kBits>
  static Vector shift_half(Vector v) {
    return v << kBits & 0xffffu;
  }
  template <int kBits>
  static Vector shift_word(Vector v) {
    return v << kBits;
  }
  static Vector where_not_above(Vector bits, Vector limit, Vector v) { return bits > limit ? 0 : v; }

  static Q16 multiply(Vector a, Vector b) { return {half_bits(half(a) * half(b))}; }
  static Q16 multiply(Q16 a, Vector b) { return multiply(Vector{a.bits}, b); }
  static Q16 add_half_float(Vector a, Vector b) { return {half_bits(half(a) + half(b))}; }
  static Q16 add(Q16 a, Vector b) { return add_half_float(a.bits, b); }
  static Q16 subtract_half(Vector a, Vector b) { return {half_bits(half(a) - half(b))}; }
  static Vector to_half(Q16 a) { return a.bits; }

  static PairQ32 multiply_wide(Vector a, Vector b) { return {{half(a) * half(b)}, {0}}; }
  static Q32 multiply(Q32 a, Q32 b) { return {a.value * b.value}; }
  static Q32 add(Q32 a, Q32 b) { return {a.value + b.value}; }
  static Q32 subtract(Q32 a, Q32 b) { return {a.value - b.value}; }
  static Q32 subtract(Vector a, Vector b) { return subtract(from_float(a), from_float(b)); }
  static Q32 from_float(Vector a) { return {__builtin_bit_cast(float, a)}; }
  static Vector to_float(Q32 a) { return __builtin_bit_cast(uint32_t, a.value); }
  static Vector narrow(PairQ32 a) { return half_bits(a.lo.value); }

 private:
  static float half(Vector v) { return half_value(static_cast<uint16_t>(v)); }
};

}  // namespace vitro::hexagon
