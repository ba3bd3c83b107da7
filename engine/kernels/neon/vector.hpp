// The 16 lanes as four NEON registers, baseline Armv8. In an unnamed namespace for the reason given in lanes.hpp: each
// target file has to have its own.
#pragma once
#include <arm_neon.h>

#include "engine/kernels/common/table.hpp"

namespace vitro {
namespace {

struct Vector {
  static constexpr int kRows = 2, kBatch = 2;
  float32x4_t q[4];

  template <class F>
  [[gnu::always_inline]] static Vector each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static Vector all(float x) {
    return each([=](int) { return vdupq_n_f32(x); });
  }
  static Vector zero() { return all(0); }
  static Vector load(const float* p) {
    return each([=](int i) { return vld1q_f32(p + 4 * i); });
  }
  static Vector load(const Half* p) {
    const float16x8_t first = vreinterpretq_f16_u16(vld1q_u16(p)), second = vreinterpretq_f16_u16(vld1q_u16(p + 8));
    return {{vcvt_f32_f16(vget_low_f16(first)), vcvt_high_f32_f16(first), vcvt_f32_f16(vget_low_f16(second)), vcvt_high_f32_f16(second)}};
  }
  void store(float* p) const {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, q[i]);
  }
  void store(Half* p) const {
    for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(q[i])));
  }
  friend Vector operator+(Vector a, Vector b) {
    return each([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
  }
  friend Vector operator-(Vector a, Vector b) {
    return each([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
  }
  friend Vector operator*(Vector a, Vector b) {
    return each([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
  }
  friend Vector operator/(Vector a, Vector b) {
    return each([&](int i) { return vdivq_f32(a.q[i], b.q[i]); });
  }
  friend Vector fma(Vector a, Vector b, Vector c) {
    return each([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
  }
  static Vector floats(lanes::SignedBytes q) {
    const int8x16_t bytes = (int8x16_t)q;
    const int16x8_t first = vmovl_s8(vget_low_s8(bytes)), second = vmovl_s8(vget_high_s8(bytes));
    const auto widen = [](int16x4_t four) { return vcvtq_f32_s32(vmovl_s16(four)); };
    return {{widen(vget_low_s16(first)), widen(vget_high_s16(first)), widen(vget_low_s16(second)), widen(vget_high_s16(second))}};
  }
  static Vector gather(const float* x, const std::byte* positions) {
    std::uint16_t at[16];
    __builtin_memcpy(at, positions, sizeof at);
    return each([&](int i) { return float32x4_t{x[at[4 * i]], x[at[4 * i + 1]], x[at[4 * i + 2]], x[at[4 * i + 3]]}; });
  }
  static Vector halves(lanes::SignedBytes high, lanes::SignedBytes low) {
    const auto upper = (uint8x16_t)high, lower = (uint8x16_t)low;
    const float16x8_t first = vreinterpretq_f16_u8(vzip1q_u8(lower, upper)), second = vreinterpretq_f16_u8(vzip2q_u8(lower, upper));
    return {{vcvt_f32_f16(vget_low_f16(first)), vcvt_high_f32_f16(first), vcvt_f32_f16(vget_low_f16(second)), vcvt_high_f32_f16(second)}};
  }
  // scale * (nibble - 8) of bytes 0 to 15: the upper halves of the floats -8 to 7 are looked up byte by byte, the lower ones are zero.
  static Vector weights(uint8x16_t nibbles, Vector scale) {
    const uint8x16_t third = {0x00, 0xe0, 0xc0, 0xa0, 0x80, 0x40, 0x00, 0x80, 0x00, 0x80, 0x00, 0x40, 0x80, 0xa0, 0xc0, 0xe0};
    const uint8x16_t fourth = {0xc1, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xbf, 0x00, 0x3f, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40};
    const uint8x16_t bytes3 = vqtbl1q_u8(third, nibbles), bytes4 = vqtbl1q_u8(fourth, nibbles);
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(bytes3, bytes4)), high = vreinterpretq_u16_u8(vzip2q_u8(bytes3, bytes4));
    const uint16x8_t none = vdupq_n_u16(0);
    const auto floats = [](uint16x8_t x) { return vreinterpretq_f32_u16(x); };
    return Vector{{floats(vzip1q_u16(none, low)), floats(vzip2q_u16(none, low)), floats(vzip1q_u16(none, high)),
                   floats(vzip2q_u16(none, high))}} *
           scale;
  }
  static void nibbles(const std::byte* p, Vector scale, Vector& low, Vector& high) {
    const uint8x16_t both = vld1q_u8(reinterpret_cast<const std::uint8_t*>(p));
    low = weights(vandq_u8(both, vdupq_n_u8(15)), scale);
    high = weights(vshrq_n_u8(both, 4), scale);
  }
  friend Vector select_less(Vector a, Vector b, Vector yes, Vector no) {
    return each([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), yes.q[i], no.q[i]); });
  }
  Vector made_odd(Vector error) const {
    return each([&](int i) {
      const uint32x4_t bits = vreinterpretq_u32_f32(q[i]), one = vdupq_n_u32(1);
      const float32x4_t zero = vdupq_n_f32(0), e = error.q[i];
      const uint32x4_t inexact = vorrq_u32(vcgtq_f32(e, zero), vcltq_f32(e, zero)), even = vceqzq_u32(vandq_u32(bits, one));
      // 1 where the error has the sign of the sum, else -1.
      const int32x4_t signs = vshrq_n_s32(vreinterpretq_s32_u32(veorq_u32(bits, vreinterpretq_u32_f32(e))), 31);
      const uint32x4_t step = vorrq_u32(vreinterpretq_u32_s32(signs), one);
      return vreinterpretq_f32_u32(vaddq_u32(bits, vandq_u32(vandq_u32(inexact, even), step)));
    });
  }
  Vector power_of_two() const {
    return each(
        [&](int i) { return vreinterpretq_f32_u32(vaddq_u32(vshlq_n_u32(vreinterpretq_u32_f32(q[i]), 23), vdupq_n_u32(0x3f800000u))); });
  }
  Vector magnitude() const {
    return each([&](int i) { return vabsq_f32(q[i]); });
  }
  friend Vector larger(Vector a, Vector b) {
    return each([&](int i) { return vmaxq_f32(a.q[i], b.q[i]); });
  }
  float largest() const { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(q[0], q[1]), vmaxq_f32(q[2], q[3]))); }
  friend std::int32_t store_bytes(Vector a, Vector b, std::int8_t* p) {
    const auto halves = [](float32x4_t x, float32x4_t y) {
      return vreinterpretq_s8_s16(vuzp1q_s16(vreinterpretq_s16_f32(x), vreinterpretq_s16_f32(y)));
    };
    const int8x16_t first = vuzp1q_s8(halves(a.q[0], a.q[1]), halves(a.q[2], a.q[3]));
    const int8x16_t second = vuzp1q_s8(halves(b.q[0], b.q[1]), halves(b.q[2], b.q[3]));
    vst1q_s8(p, first);
    vst1q_s8(p + 16, second);
    return vaddlvq_s16(vpadalq_s8(vpaddlq_s8(first), second));
  }
  float sum() const {
    const float32x4_t s4 = vaddq_f32(vaddq_f32(q[0], q[2]), vaddq_f32(q[1], q[3]));
    const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
  }
};

}  // namespace
}  // namespace vitro
