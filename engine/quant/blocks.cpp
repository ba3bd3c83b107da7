#include "engine/quant/blocks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/code_search.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/q4_k.hpp"

namespace vitro {
namespace {

std::uint16_t load16(const std::byte* p) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(p[0]) | std::to_integer<unsigned>(p[1]) << 8);
}

void store16(std::byte* p, std::uint16_t value) {
  p[0] = static_cast<std::byte>(value & 0xff);
  p[1] = static_cast<std::byte>(value >> 8);
}

int byte_at(const std::byte* p, std::size_t i) { return std::to_integer<int>(p[i]); }

void dequantise_q4_0(const std::byte* in, float* out) {
  const float d = half_to_float(load16(in));
  for (std::size_t i = 0; i < 16; ++i) {
    const int both = byte_at(in + 2, i);
    out[i] = d * static_cast<float>((both & 15) - 8);
    out[i + 16] = d * static_cast<float>((both >> 4) - 8);
  }
}

void dequantise_q8_0(const std::byte* in, float* out) {
  const float d = half_to_float(load16(in));
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(byte_at(in + 2, i)));
}

struct ScaleMin {
  float scale, min;
};

// The 6-bit scale and minimum of group j (of 8) from the 12 packed bytes of a q4_k or q5_k block.
ScaleMin scale_min(const std::byte* packed, std::size_t j) {
  const auto q = [&](std::size_t i) { return byte_at(packed, i); };
  if (j < 4) return {static_cast<float>(q(j) & 63), static_cast<float>(q(j + 4) & 63)};
  return {static_cast<float>((q(j + 4) & 15) | ((q(j - 4) >> 6) << 4)), static_cast<float>((q(j + 4) >> 4) | ((q(j) >> 6) << 4))};
}

// q4_k when `fifth` is null, else q5_k: the layouts differ in the fifth bits alone.
void dequantise_k45(const std::byte* in, const std::byte* fifth, const std::byte* nibbles, float* out) {
  const float d = half_to_float(load16(in)), dmin = half_to_float(load16(in + 2));
  for (std::size_t group = 0; group < 8; ++group) {
    const auto [scale, min] = scale_min(in + 4, group);
    const float step = d * scale, offset = dmin * min;
    const std::byte* run = nibbles + 32 * (group / 2);
    for (std::size_t l = 0; l < 32; ++l) {
      int q = group % 2 == 0 ? byte_at(run, l) & 15 : byte_at(run, l) >> 4;
      if (fifth != nullptr) q |= ((byte_at(fifth, l) >> group) & 1) << 4;
      out[32 * group + l] = step * static_cast<float>(q) - offset;
    }
  }
}

void dequantise_q6_k(const std::byte* in, float* out) {
  const std::byte *low = in, *high = in + 128, *scales = in + 192;
  const float d = half_to_float(load16(in + 208));
  for (std::size_t e = 0; e < kSuperBlock; ++e) {
    // Within a half of 128, quarter k of 32 takes its low bits from byte (k & 1) * 32 + l, nibble k / 2.
    const std::size_t half = e / 128, quarter = e % 128 / 32, l = e % 32;
    const int nibbles = byte_at(low, 64 * half + 32 * (quarter & 1) + l);
    const int bits = quarter < 2 ? nibbles & 15 : nibbles >> 4;
    const int top = (byte_at(high, 32 * half + l) >> (2 * quarter)) & 3;
    const auto scale = static_cast<float>(static_cast<std::int8_t>(byte_at(scales, e / 16)));
    out[e] = d * scale * static_cast<float>((bits | top << 4) - 32);
  }
}

// 1 / d. A step so small that this overflows is stored as a zero scale anyway, so its quants may be anything finite.
float reciprocal(float d) {
  const float inverse = 1 / d;
  return std::isfinite(inverse) ? inverse : 0;
}

void quantise_q8_0(const float* in, std::byte* out) {
  float largest = 0;
  for (std::size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(in[i]));
  const float d = largest / 127, inverse = reciprocal(d);
  store16(out, float_to_half(d));
  for (std::size_t i = 0; i < kBlock; ++i) out[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(in[i] * inverse)));
}

void quantise_q4_0(const float* in, std::byte* out) {
  float largest = 0;  // signed: the value of largest magnitude, the first of equals
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (std::abs(in[i]) > std::abs(largest)) largest = in[i];
  }
  const float d = largest / -8, inverse = reciprocal(d);
  const auto nibble = [&](float x) { return std::min(15, static_cast<int>(x * inverse + 8.5f)); };
  store16(out, float_to_half(d));
  for (std::size_t i = 0; i < 16; ++i) out[2 + i] = static_cast<std::byte>(nibble(in[i]) | nibble(in[i + 16]) << 4);
}

}  // namespace

std::size_t block_elements(Format format) {
  if (const auto group = group_format(format)) return group->group;
  switch (format) {
    case Format::f32:
    case Format::f16:
    case Format::bf16:
    case Format::int8_fp8:
    case Format::index32: return 1;
    case Format::q4_0:
    case Format::q4_nibbles:
    case Format::q8_0:
    case Format::iq4_nl:
    case Format::fp4:
    case Format::nf4: return kBlock;
    case Format::q4_k:
    case Format::q5_k:
    case Format::q6_k: return kSuperBlock;
    default: check_failed("format", __FILE__, __LINE__, "unknown format");
  }
}

std::size_t block_bytes(Format format) {
  if (const auto group = group_format(format)) return 2 + (group->zero_point ? 1 : 0) + group->bits * group->group / 8;
  switch (format) {
    case Format::f32:
    case Format::index32: return 4;
    case Format::f16:
    case Format::bf16: return 2;
    case Format::q4_0:
    case Format::iq4_nl:
    case Format::fp4:
    case Format::nf4: return 18;
    case Format::q4_nibbles: return 16;
    case Format::int8_fp8: return 1;  // but for the scales: kv_row_bytes()
    case Format::q8_0: return 34;
    case Format::q4_k: return 144;
    case Format::q5_k: return 176;
    case Format::q6_k: return 210;
    default: check_failed("format", __FILE__, __LINE__, "unknown format");
  }
}

// Asked for several operands of every simulated call: from a table, and without a division.
Bytes row_bytes(Format format, std::uint64_t columns, Layout layout) {
  struct Size {
    int shift;  // blocks are powers of two long
    Bytes bytes, row_scale, zero_point;
    std::uint32_t zero_bits;  // of a packed zero point
  };
  static const auto kSizes = [] {
    std::array<Size, kFormatCount> sizes{};
    for (std::size_t f = 0; f < kFormatCount; ++f) {
      const auto known = static_cast<Format>(f);
      const auto group = group_format(known);
      const bool zero_point = group && group->zero_point;
      sizes[f] = {std::countr_zero(block_elements(known)), block_bytes(known), group && group->row_scale ? Bytes{2} : 0,
                  zero_point ? Bytes{1} : 0, zero_point ? zero_field_bits(group->bits) : 0};
    }
    return sizes;
  }();
  const Size size = kSizes.at(static_cast<std::size_t>(format));
  VITRO_CHECK(columns >> size.shift << size.shift == columns, "a row has to be whole blocks");
  const Bytes blocks = columns >> size.shift;
  if (layout == Layout::rows) return blocks * size.bytes;
  return blocks * (size.bytes - size.row_scale - size.zero_point) + size.row_scale + (blocks * size.zero_bits + 7) / 8;
}

void dequantise_row(Format format, const std::byte* in, float* out, std::size_t n) {
  VITRO_CHECK(n % block_elements(format) == 0, "a row has to be whole blocks");
  if (format == Format::f32) {
    if (n > 0) std::memcpy(out, in, n * sizeof(float));
    return;
  }
  if (has_codes(format) && format != Format::q4_0) return dequantise_codes(format, in, out, n);
  const std::size_t step = block_elements(format), bytes = block_bytes(format);
  for (std::size_t i = 0; i < n; i += step, in += bytes, out += step) {
    switch (format) {
      case Format::f16: *out = half_to_float(load16(in)); break;
      case Format::bf16: *out = bfloat_to_float(load16(in)); break;
      case Format::q4_0: dequantise_q4_0(in, out); break;
      case Format::q8_0: dequantise_q8_0(in, out); break;
      case Format::q4_k: dequantise_k45(in, nullptr, in + 16, out); break;
      case Format::q5_k: dequantise_k45(in, in + 16, in + 48, out); break;
      case Format::q6_k: dequantise_q6_k(in, out); break;
      default: VITRO_CHECK(false, "not a weight format");
    }
  }
}

void split_q4_0(const std::byte* row, std::size_t n, std::byte* nibbles, std::byte* scales) {
  VITRO_CHECK(n % kBlock == 0, "a row has to be whole blocks");
  for (std::size_t b = 0; b < n / kBlock; ++b, row += 18) {
    std::memcpy(scales + 2 * b, row, 2);
    std::memcpy(nibbles + 16 * b, row + 2, 16);
  }
}

void dequantise_nibbles(const std::byte* nibbles, const std::byte* scales, float* out, std::size_t n) {
  VITRO_CHECK(n % kBlock == 0, "a row has to be whole blocks");
  for (std::size_t b = 0; b < n / kBlock; ++b) {
    std::byte block[18];
    std::memcpy(block, scales + 2 * b, 2);
    std::memcpy(block + 2, nibbles + 16 * b, 16);
    dequantise_q4_0(block, out + kBlock * b);
  }
}

bool can_quantise(Format format) {
  return format == Format::f32 || format == Format::f16 || format == Format::bf16 || format == Format::q8_0 ||
         format == Format::q4_k || has_codes(format);
}

void quantise_row(Format format, const float* in, std::byte* out, std::size_t n) {
  VITRO_CHECK(can_quantise(format), "no quantiser for this format");
  VITRO_CHECK(n % block_elements(format) == 0, "a row has to be whole blocks");
  if (has_codes(format) && format != Format::q4_0) return quantise_codes(format, in, out, n);
  const std::size_t step = block_elements(format), bytes = block_bytes(format);
  for (std::size_t i = 0; i < n; i += step, in += step, out += bytes) {
    switch (format) {
      case Format::f32: std::memcpy(out, in, sizeof(float)); break;
      case Format::f16: store16(out, float_to_half(*in)); break;
      case Format::bf16: store16(out, float_to_bfloat(*in)); break;
      case Format::q8_0: quantise_q8_0(in, out); break;
      case Format::q4_k: quantise_q4_k(in, out); break;
      default: quantise_q4_0(in, out); break;
    }
  }
}

}  // namespace vitro
