// Keys and values of one head and position, as a KV pool keeps them. int8_fp8 is MNN-LLM's pair (section 4.2): keys in int8 with a
// scale and a minimum of their own, since scores are sums over the elements of a key; values in fp8, since what comes out is a sum
// over positions, and a new one must not change what stands there. fp8 is e4m3 without infinities (OCP 8-bit floating point): values
// of a trained model are far below its 448, where it errs by 1/16 at most and e5m2 by 1/8.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/quant/blocks.hpp"
#include "engine/tensor/format.hpp"

namespace vitro {

inline constexpr float kLargestFp8 = 448;

// Exact.
constexpr float fp8_to_float(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24, exponent = (code >> 3) & 15u, fraction = code & 7u;
  if (exponent == 15 && fraction == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-9f) | sign);
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (fraction << 20));
}

// Rounds to nearest, ties to even; what is larger than the largest becomes the largest; NaN stays a NaN.
constexpr std::uint8_t float_to_fp8(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7fffffffu, sign = (bits >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  std::uint32_t code = 0;
  if (magnitude < 0x3c800000u) {  // below 2^-6: a multiple of 2^-9
    const float steps = std::bit_cast<float>(magnitude) * 0x1p9f;
    code = static_cast<std::uint32_t>(steps);
    const float rest = steps - static_cast<float>(code);
    code += rest > 0.5f || (rest == 0.5f && code % 2 == 1);
  } else {
    code = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
  }
  return static_cast<std::uint8_t>(sign | std::min(code, 0x7eu));
}

inline constexpr std::array<float, 256> kFp8 = [] {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) values[code] = fp8_to_float(static_cast<std::uint8_t>(code));
  return values;
}();

// Bytes of one row; which: 0 keys, 1 values. An int8 key ends with its scale and its minimum, float32 each.
constexpr Bytes kv_row_bytes(Format format, std::uint32_t which, std::uint32_t dim) {
  if (format == Format::int8_fp8) return dim + (which == 0 ? 2 * sizeof(float) : 0);
  return Bytes{dim} * (format == Format::f16 ? 2 : 4);
}
// Of a key and its value.
constexpr Bytes kv_pair_bytes(Format format, std::uint32_t dim) { return kv_row_bytes(format, 0, dim) + kv_row_bytes(format, 1, dim); }

// code = round((x - min) / scale) - 128, scale = (max - min) / 255 (equation 1); that of NaN is the least. Requires: dim > 0.
inline void quantise_key(const float* x, std::uint32_t dim, std::byte* out) {
  const auto [low, high] = std::minmax_element(x, x + dim);
  const float min = *low, scale = (*high - min) / 255.0f;
  for (std::uint32_t i = 0; i < dim; ++i) {
    const float steps = scale > 0 ? std::floor((x[i] - min) / scale + 0.5f) : 0.0f;
    out[i] = static_cast<std::byte>(static_cast<std::int8_t>(static_cast<int>(std::min(std::max(0.0f, steps), 255.0f)) - 128));
  }
  std::memcpy(out + dim, &scale, sizeof scale);
  std::memcpy(out + dim + sizeof scale, &min, sizeof min);
}

inline void dequantise_key(const std::byte* in, std::uint32_t dim, float* out) {
  float scale = 0, min = 0;
  std::memcpy(&scale, in + dim, sizeof scale);
  std::memcpy(&min, in + dim + sizeof scale, sizeof min);
  const auto* codes = reinterpret_cast<const std::int8_t*>(in);
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = static_cast<float>(codes[i] + 128) * scale + min;
}

inline void write_kv_row(Format format, std::uint32_t which, const float* x, std::uint32_t dim, std::byte* out) {
  if (format != Format::int8_fp8) return quantise_row(format, x, out, dim);
  if (which == 0) return quantise_key(x, dim, out);
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = static_cast<std::byte>(float_to_fp8(x[i]));
}

inline void read_kv_row(Format format, std::uint32_t which, const std::byte* in, std::uint32_t dim, float* out) {
  if (format != Format::int8_fp8) return dequantise_row(format, in, out, dim);
  if (which == 0) return dequantise_key(in, dim, out);
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = kFp8[std::to_integer<std::size_t>(in[i])];
}

}  // namespace vitro
