// fp16 and float32 for code that the worker compiles, too: its compiler has no C++ library, so engine/quant/float16.hpp is out of reach.
// tests/engine/kernels/hexagon/hmx_test.cpp holds the two together.
#pragma once
#include <stdint.h>

namespace vitro::hexagon {

// Exact: a half has no value that a float lacks.
inline float half_value(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  if (magnitude - 0x400u < 0x7800u) return __builtin_bit_cast(float, sign | ((magnitude << 13) + (112u << 23)));  // normal, as most are
  if (magnitude > 0x3ffu) return __builtin_bit_cast(float, sign | 0x7f800000u | magnitude << 13);
  const float small = static_cast<float>(magnitude) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

// To the nearest, ties to even; too large becomes infinity, a NaN stays one.
inline uint16_t half_bits(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and up
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);             // below 2^-25 even a tie is zero
  // Below 2^-14 halves are multiples of 2^-24: fewer bits of the fraction stay.
  const bool small = magnitude < 0x38800000u;
  const uint32_t shift = small ? 126u - (magnitude >> 23) : 13;
  const uint32_t all = small ? (magnitude & 0x7fffffu) | 0x800000u : magnitude - 0x38000000u;
  const uint32_t kept = all >> shift, rest = all & ((1u << shift) - 1), tie = 1u << (shift - 1);
  return static_cast<uint16_t>(sign | (kept + (rest > tie || (rest == tie && (kept & 1u) != 0) ? 1u : 0u)));
}

}  // namespace vitro::hexagon
