// IEEE binary16 and bfloat16 in portable integer code: the same bits on every target.
#pragma once
#include <bit>
#include <cstdint>

namespace vitro {

// Exact: every binary16 value, infinities and NaN payloads included, is a float. Always inlined, as kernels of several instruction sets use
// it (engine/kernels/common/block_rows.hpp); its address can therefore not be taken, as at -O1 no call through a pointer is inlined.
[[gnu::always_inline]] constexpr float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, which a float holds exactly
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return __builtin_bit_cast(float, sign | (wide << 23) | (fraction << 13));
}

// Rounds to nearest, ties to even; too large becomes infinity, NaN stays a (quiet) NaN.
constexpr std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 2^16 and up
  if (magnitude < 0x38800000u) {                        // below 2^-14: a multiple of 2^-24, or zero
    if (magnitude < 0x33000000u) return sign;           // below 2^-25 even a tie rounds to zero
    const std::uint32_t shift = 126u - (magnitude >> 23);
    const std::uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1), tie = 1u << (shift - 1);
    return static_cast<std::uint16_t>(sign | (kept + (rest > tie || (rest == tie && (kept & 1u)))));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);  // a carry into infinity is right too
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

[[gnu::always_inline]] constexpr float bfloat_to_float(std::uint16_t value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value) << 16);
}

// Rounds to nearest, ties to even; NaN stays a NaN.
constexpr std::uint16_t float_to_bfloat(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace vitro
