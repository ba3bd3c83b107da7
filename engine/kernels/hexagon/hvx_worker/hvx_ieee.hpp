// The instruction set of attention_stages.hpp for this worker: HVX for integers and tables, IEEE scalars lane by lane where a phone has
// qfloat, which the emulator lacks. Every operation rounds to nearest, so results are the oracle's to the bit.
#pragma once
#include "engine/kernels/hexagon/half.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"

namespace vitro::hexagon {

struct HvxIeee : HvxFloatTypes {
  union alignas(128) Lanes {
    Vector vector;
    uint16_t half[64];
    float word[32];
  };

  static Q16 multiply(Vector a, Vector b) {
    return {halves(a, b, [](float x, float y) { return x * y; })};
  }
  static Q16 multiply(Q16 a, Vector b) { return multiply(a.bits, b); }
  static Q16 add_half_float(Vector a, Vector b) {
    return {halves(a, b, [](float x, float y) { return x + y; })};
  }
  static Q16 add(Q16 a, Vector b) { return add_half_float(a.bits, b); }
  static Q16 subtract_half(Vector a, Vector b) {
    return {halves(a, b, [](float x, float y) { return x - y; })};
  }
  static Vector to_half(Q16 a) { return a.bits; }
  static PairQ32 multiply_wide(Vector a, Vector b) {
    const Lanes x{a}, y{b};
    Lanes even, odd;
    for (int i = 0; i < 32; ++i) {
      even.word[i] = half_value(x.half[2 * i]) * half_value(y.half[2 * i]);
      odd.word[i] = half_value(x.half[2 * i + 1]) * half_value(y.half[2 * i + 1]);
    }
    return {{even.vector}, {odd.vector}};
  }
  static Q32 from_float(Vector a) { return {a}; }
  static Q32 subtract(Vector a, Vector b) {
    return {words(a, b, [](float x, float y) { return x - y; })};
  }
  static Q32 subtract(Q32 a, Q32 b) { return subtract(a.bits, b.bits); }
  static Q32 multiply(Q32 a, Q32 b) {
    return {words(a.bits, b.bits, [](float x, float y) { return x * y; })};
  }
  static Q32 add(Q32 a, Q32 b) {
    return {words(a.bits, b.bits, [](float x, float y) { return x + y; })};
  }
  static Vector to_float(Q32 a) { return a.bits; }
  static Vector narrow(PairQ32 a) {
    const Lanes even{a.lo.bits}, odd{a.hi.bits};
    Lanes out;
    for (int i = 0; i < 32; ++i) {
      out.half[2 * i] = half_bits(even.word[i]);
      out.half[2 * i + 1] = half_bits(odd.word[i]);
    }
    return out.vector;
  }

 private:
  template <class F>
  static Vector halves(Vector a, Vector b, F f) {
    const Lanes x{a}, y{b};
    Lanes out;
    for (int i = 0; i < 64; ++i) out.half[i] = half_bits(f(half_value(x.half[i]), half_value(y.half[i])));
    return out.vector;
  }
  template <class F>
  static Vector words(Vector a, Vector b, F f) {
    const Lanes x{a}, y{b};
    Lanes out;
    for (int i = 0; i < 32; ++i) out.word[i] = f(x.word[i], y.word[i]);
    return out.vector;
  }
};

}  // namespace vitro::hexagon
