// 8-bit floats in portable integer code: e4m3 without infinities and e5m2 (OCP 8-bit floating point).
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "engine/quant/float16.hpp"

namespace vitro {

inline constexpr float kLargestE4m3 = 448, kLargestE5m2 = 57344;

// Exact. e4m3 has one NaN of each sign.
constexpr float e4m3_to_float(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24, exponent = (code >> 3) & 15u, fraction = code & 7u;
  if (exponent == 15 && fraction == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-9f) | sign);
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (fraction << 20));
}
// Exact: the upper half of a binary16.
constexpr float e5m2_to_float(std::uint8_t code) { return half_to_float(static_cast<std::uint16_t>(code << 8)); }

// Rounds to nearest, ties to even; what is larger than the largest (code `largest`) becomes the largest; NaN stays a NaN.
template <int FractionBits, std::uint32_t Bias>
constexpr std::uint8_t float_to_fp8(float value, std::uint32_t largest) {
  constexpr std::uint32_t kCut = 23 - FractionBits, kRebias = 127 - Bias;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  std::uint32_t code = 0;
  if (magnitude < (kRebias + 1) << 23) {  // a multiple of the smallest number
    const float steps = std::bit_cast<float>(magnitude) * std::bit_cast<float>((127 + Bias - 1 + FractionBits) << 23);
    code = static_cast<std::uint32_t>(steps);
    const float rest = steps - static_cast<float>(code);
    code += rest > 0.5f || (rest == 0.5f && code % 2 == 1);
  } else {
    code = ((magnitude + (1u << (kCut - 1)) - 1 + ((magnitude >> kCut) & 1u)) >> kCut) - (kRebias << FractionBits);
  }
  return static_cast<std::uint8_t>(sign | std::min(code, largest));
}
constexpr std::uint8_t float_to_e4m3(float value) { return float_to_fp8<3, 7>(value, 0x7e); }
constexpr std::uint8_t float_to_e5m2(float value) { return float_to_fp8<2, 15>(value, 0x7b); }

// Values by code.
inline constexpr auto kE4m3 = [] {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) values[code] = e4m3_to_float(static_cast<std::uint8_t>(code));
  return values;
}();
inline constexpr auto kE5m2 = [] {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) values[code] = e5m2_to_float(static_cast<std::uint8_t>(code));
  return values;
}();

}  // namespace vitro
