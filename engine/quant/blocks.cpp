#include "engine/quant/blocks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/code_search.hpp"
#include "engine/quant/codebook_blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/load16.hpp"
#include "engine/quant/outlier_rows.hpp"
#include "engine/quant/q4_k.hpp"

namespace vitro {
namespace {

int byte_at(const std::byte* p, std::size_t i) { return std::to_integer<int>(p[i]); }

void dequantise_q4_0(const std::byte* in, float* out) {
  const float d = half_to_float(load16(in));
  for (std::size_t i = 0; i < 16; ++i) {
    const int both = byte_at(in + 2, i);
    out[i] = d * static_cast<float>((both & 15) - 8);
    out[i + 16] = d * static_cast<float>((both >> 4) - 8);
  }
}

// Two columns of a tile group (tile_groups.hpp).
void dequantise_pair(const std::byte* in, float* out) {
  const float d = half_to_float(load16(in));
  const int both = byte_at(in, 2);
  out[0] = d * static_cast<float>((both & 15) - 8);
  out[1] = d * static_cast<float>((both >> 4) - 8);
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

// d, two bits more of each of eight scales, four bits of each, then blocks as in iq4_nl.
void dequantise_iq4_xs(const std::byte* in, float* out) {
  const float d = half_to_float(load16(in));
  const unsigned high = load16(in + 2);
  for (std::size_t b = 0; b < 8; ++b, out += kBlock) {
    const int scale = (byte_at(in + 4, b / 2) >> 4 * (b % 2) & 15) | static_cast<int>(high >> 2 * b & 3) << 4;
    const float step = d * static_cast<float>(scale - 32);
    for (std::size_t i = 0; i < 16; ++i) {
      const int both = byte_at(in + 8 + 16 * b, i);
      out[i] = step * kIq4Values[both & 15];
      out[16 + i] = step * kIq4Values[both >> 4];
    }
  }
}

template <Format kFormat>
void dequantise_codebook(const std::byte* in, float* out) {
  using Codec = codebook::Codec<kFormat>;
  const float d = half_to_float(Codec::d(in)) * Codec::kUnit;
  for (int b = 0; b < codebook::kGroups; ++b, out += kBlock) {
    std::uint64_t octets[4];
    const std::uint32_t marks = Codec::marks(in, b);
    Codec::octets(in, b, [&](int j, std::uint64_t entries) { octets[j] = Codec::changed(entries, marks >> 8 * j & 255); });
    for (int i = 0; i < 32; ++i) {
      const float step = d * static_cast<float>(Codec::scale(in, b, i / Codec::kRun));
      out[i] = step * static_cast<float>(static_cast<std::int8_t>(octets[i / 8] >> i % 8 * 8));
    }
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

// Asked for several operands of every simulated call: without a division.
Bytes row_bytes(Format format, std::uint64_t columns, Layout layout) {
  const int shift = std::countr_zero(format.block);  // blocks are powers of two long
  VITRO_CHECK(columns >> shift << shift == columns, "a row has to be whole blocks");
  const Bytes blocks = columns >> shift;
  if (format.has_outliers()) return columns == 0 ? 0 : OutlierRow{columns}.bytes();
  if (layout == Layout::rows) return blocks * format.block_bytes();
  if (layout == Layout::strips) return columns / kBlock * Format::q4_0.block_bytes();
  const Bytes row_scale = format.row_scale ? 2 : 0, zero_point = format.zero_point ? 1 : 0;
  const Bytes zeros = !format.zero_point ? 0 : format.row_scale ? 1 : (blocks * zero_field_bits(format.bits) + 7) / 8;
  return blocks * (format.block_bytes() - row_scale - zero_point) + row_scale + zeros;
}

void dequantise_row(Format format, const std::byte* in, float* out, std::size_t n) {
  VITRO_CHECK(n % format.block == 0, "a row has to be whole blocks");
  const auto blocks = [&](auto read) {
    for (std::size_t i = 0; i < n; i += format.block, in += format.block_bytes(), out += format.block) read(in, out);
  };
  const auto floats = [&](auto read) {
    for (std::size_t i = 0; i < n; ++i) out[i] = read(load16(in + 2 * i));
  };
  switch (format.family) {
    case Format::Family::plain:
      if (format == Format::f16) return floats([](std::uint16_t x) { return half_to_float(x); });
      if (format == Format::bf16) return floats([](std::uint16_t x) { return bfloat_to_float(x); });
      if (n > 0) std::memcpy(out, in, n * sizeof(float));
      return;
    case Format::Family::block:
      return format == Format::q4_0 ? blocks(dequantise_q4_0) : blocks(dequantise_q8_0);
    case Format::Family::k_quant:
      if (format == Format::q4_k) return blocks([](const std::byte* x, float* y) { dequantise_k45(x, nullptr, x + 16, y); });
      if (format == Format::q5_k) return blocks([](const std::byte* x, float* y) { dequantise_k45(x, x + 16, x + 48, y); });
      if (format == Format::iq4_xs) return blocks(dequantise_iq4_xs);
      return blocks(dequantise_q6_k);
    case Format::Family::codebook:
      return codebook::with_format(format, [&]<Format kFormat>() { blocks(dequantise_codebook<kFormat>); });
    case Format::Family::tile:
      return blocks(dequantise_pair);
    case Format::Family::mixed:
      return dequantise_outlier_row(in, out, n);
    case Format::Family::group:
    case Format::Family::table:
      return dequantise_codes(format, in, out, n);
    default:
      VITRO_CHECK(false, "not a weight format");
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
  return format.family == Format::Family::plain || format == Format::q8_0 || format == Format::q4_k || format.has_codes() ||
         format.has_outliers();
}

void quantise_row(Format format, const float* in, std::byte* out, std::size_t n) {
  VITRO_CHECK(can_quantise(format), "no quantiser for this format");
  VITRO_CHECK(n % format.block == 0, "a row has to be whole blocks");
  const auto blocks = [&](auto write) {
    for (std::size_t i = 0; i < n; i += format.block, in += format.block, out += format.block_bytes()) write(in, out);
  };
  const auto floats = [&](auto write) {
    for (std::size_t i = 0; i < n; ++i) store16(out + 2 * i, write(in[i]));
  };
  switch (format.family) {
    case Format::Family::plain:
      if (format == Format::f16) return floats([](float x) { return float_to_half(x); });
      if (format == Format::bf16) return floats([](float x) { return float_to_bfloat(x); });
      if (n > 0) std::memcpy(out, in, n * sizeof(float));
      return;
    case Format::Family::block:
      return format == Format::q4_0 ? blocks(quantise_q4_0) : blocks(quantise_q8_0);
    case Format::Family::k_quant:
      return blocks(quantise_q4_k);
    case Format::Family::mixed:
      return quantise_outlier_row(in, out, n);
    default:
      return quantise_codes(format, in, out, n);
  }
}

}  // namespace vitro
