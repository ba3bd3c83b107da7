// The 16 lanes as four NEON registers, baseline Armv8. In an unnamed namespace for the reason given in lanes.hpp: each
// target file has to have its own.
#pragma once
#include <arm_neon.h>

#include "engine/kernels/table.hpp"

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
    return each([=](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
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
  static Vector floats(int8x16_t quants) {
    const int16x8_t first = vmovl_s8(vget_low_s8(quants)), second = vmovl_s8(vget_high_s8(quants));
    const auto widen = [](int16x4_t four) { return vcvtq_f32_s32(vmovl_s16(four)); };
    return {{widen(vget_low_s16(first)), widen(vget_high_s16(first)), widen(vget_low_s16(second)), widen(vget_high_s16(second))}};
  }
  static void nibbles(const std::byte* p, Vector scale, Vector& low, Vector& high) {
    const uint8x16_t both = vld1q_u8(reinterpret_cast<const std::uint8_t*>(p));
    low = floats(vsubq_s8(vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15))), vdupq_n_s8(8))) * scale;
    high = floats(vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(both, 4)), vdupq_n_s8(8))) * scale;
  }
  friend Vector select_less(Vector a, Vector b, Vector yes, Vector no) {
    return each([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), yes.q[i], no.q[i]); });
  }
  Vector power_of_two() const {
    return each(
        [&](int i) { return vreinterpretq_f32_u32(vaddq_u32(vshlq_n_u32(vreinterpretq_u32_f32(q[i]), 23), vdupq_n_u32(0x3f800000u))); });
  }
  float sum() const {
    const float32x4_t s4 = vaddq_f32(vaddq_f32(q[0], q[2]), vaddq_f32(q[1], q[3]));
    const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
  }
};

}  // namespace
}  // namespace vitro
