#include "engine/quant/kv_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/quant/float16.hpp"
#include "engine/quant/fp8.hpp"

namespace vitro {
namespace {

struct Reach {
  float low = std::numeric_limits<float>::infinity(), high = -low;
};

// A NaN is neither end, and zeros count as +0, so that the order of elements does not matter.
Reach reach_of(const float* x, std::uint32_t n) {
  Reach reach;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (x[i] < reach.low) reach.low = x[i];
    if (x[i] > reach.high) reach.high = x[i];
  }
  if (reach.low > reach.high) return {0, 0};
  return {reach.low + 0.0f, reach.high + 0.0f};
}

void quantise_key8(const float* x, std::uint32_t dim, std::byte* out) {
  const auto [min, max] = reach_of(x, dim);
  const float scale = (max - min) / 255.0f;
  for (std::uint32_t i = 0; i < dim; ++i) {
    const float steps = scale > 0 ? std::floor((x[i] - min) / scale + 0.5f) : 0.0f;
    out[i] = static_cast<std::byte>(static_cast<std::int8_t>(static_cast<int>(std::min(std::max(0.0f, steps), 255.0f)) - 128));
  }
  std::memcpy(out + dim, &scale, sizeof scale);
  std::memcpy(out + dim + sizeof scale, &min, sizeof min);
}

void dequantise_key8(const std::byte* in, std::uint32_t dim, float* out) {
  float scale = 0, min = 0;
  std::memcpy(&scale, in + dim, sizeof scale);
  std::memcpy(&min, in + dim + sizeof scale, sizeof min);
  const auto* codes = reinterpret_cast<const std::int8_t*>(in);
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = static_cast<float>(codes[i] + 128) * scale + min;
}

// Of a group of a key in int4; halves, as a row holds them.
struct GroupScale {
  std::uint16_t scale = 0, zero = 0;
};
static_assert(sizeof(GroupScale) == kKeyGroupScales);

GroupScale scale_of(const float* x, std::uint32_t n) {
  constexpr float kLargestHalf = 65504;
  const Reach reach = reach_of(x, n);
  const float low = std::clamp(reach.low, -kLargestHalf, kLargestHalf);
  const std::uint16_t scale = float_to_half((std::clamp(reach.high, -kLargestHalf, kLargestHalf) - low) / 15.0f);
  return {scale, float_to_half(low + 8.0f * half_to_float(scale))};
}

unsigned code4(float x, float scale, float zero) {
  const float steps = scale > 0 ? std::floor((x - zero) / scale + 0.5f) : 0.0f;
  return static_cast<unsigned>(static_cast<int>(std::min(std::max(-8.0f, steps), 7.0f)) + 8);
}

void quantise_key4(const float* x, std::uint32_t dim, std::byte* out) {
  std::byte* scales = out + key_groups(dim) * kKeyGroupCodes;
  std::fill(out, scales, std::byte{0});
  for (std::uint32_t first = 0; first < dim; first += kKeyGroup, out += kKeyGroupCodes, scales += kKeyGroupScales) {
    const std::uint32_t n = std::min(kKeyGroup, dim - first);
    const GroupScale of = scale_of(x + first, n);
    std::memcpy(scales, &of, sizeof of);
    for (std::uint32_t i = 0; i < n; ++i) {
      const unsigned code = code4(x[first + i], half_to_float(of.scale), half_to_float(of.zero));
      out[i % kKeyGroupCodes] |= static_cast<std::byte>(i < kKeyGroupCodes ? code : code << 4);
    }
  }
}

void dequantise_key4(const std::byte* in, std::uint32_t dim, float* out) {
  const std::byte* scales = in + key_groups(dim) * kKeyGroupCodes;
  for (std::uint32_t first = 0; first < dim; first += kKeyGroup, in += kKeyGroupCodes, scales += kKeyGroupScales) {
    GroupScale of;
    std::memcpy(&of, scales, sizeof of);
    const float scale = half_to_float(of.scale), zero = half_to_float(of.zero);
    for (std::uint32_t i = 0; i < std::min(kKeyGroup, dim - first); ++i) {
      const int both = std::to_integer<int>(in[i % kKeyGroupCodes]), code = (i < kKeyGroupCodes ? both & 15 : both >> 4) - 8;
      out[first + i] = static_cast<float>(code) * scale + zero;
    }
  }
}

}  // namespace

std::vector<std::string> kv_format_names() {
  std::vector<std::string> names;
  for (const Format format : kKvFormats) names.emplace_back(to_string(format));
  return names;
}

std::string kv_format_list() {
  std::string list;
  for (const std::string& name : kv_format_names()) {
    const bool last = name == to_string(kKvFormats.back());
    list += (list.empty() ? "" : last ? " or " : ", ") + name;
  }
  return list;
}

void write_kv_row(Format format, std::uint32_t which, const float* x, std::uint32_t dim, std::byte* out) {
  if (!format.is_for_kv()) return quantise_row(format, x, out, dim);
  if (which == 0) return format.bits == 8 ? quantise_key8(x, dim, out) : quantise_key4(x, dim, out);
  const bool e5m2 = format.values == Format::Values::e5m2;
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = static_cast<std::byte>(e5m2 ? float_to_e5m2(x[i]) : float_to_e4m3(x[i]));
}

void read_kv_row(Format format, std::uint32_t which, const std::byte* in, std::uint32_t dim, float* out) {
  if (!format.is_for_kv()) return dequantise_row(format, in, out, dim);
  if (which == 0) return format.bits == 8 ? dequantise_key8(in, dim, out) : dequantise_key4(in, dim, out);
  const std::array<float, 256>& values = format.values == Format::Values::e5m2 ? kE5m2 : kE4m3;
  for (std::uint32_t i = 0; i < dim; ++i) out[i] = values[std::to_integer<std::size_t>(in[i])];
}

}  // namespace vitro
