#include "engine/quant/group_formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

static_assert(std::endian::native == std::endian::little, "eight codes are put together in a word");

constexpr std::size_t kScaleBytes = 2;
constexpr std::size_t kMostElements = 256;
constexpr std::byte kSign{0x80};  // what makes q - 128 of a byte q, and q of it again

// Byte j of word b is bit j of b.
constexpr std::array<std::uint64_t, 256> kSpread = [] {
  std::array<std::uint64_t, 256> words{};
  for (std::uint64_t b = 0; b < 256; ++b) {
    for (unsigned j = 0; j < 8; ++j) words[b] |= ((b >> j) & 1) << (8 * j);
  }
  return words;
}();

std::uint16_t load_scale(const std::byte* block) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(block[0]) | std::to_integer<unsigned>(block[1]) << 8);
}

void unpack_planes(Format format, const std::byte* planes, std::uint8_t* codes) {
  const std::size_t plane = format.block / 8;
  for (std::size_t k = 0; k < plane; ++k) {
    std::uint64_t eight = 0;
    for (std::size_t i = 0; i < format.bits; ++i) eight |= kSpread[std::to_integer<std::size_t>(planes[i * plane + k])] << i;
    std::memcpy(codes + 8 * k, &eight, sizeof eight);
  }
}

void unpack_nibbles(const std::byte* nibbles, std::uint8_t* codes) {
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    codes[i] = std::to_integer<std::uint8_t>(nibbles[i] & std::byte{15});
    codes[i + kBlock / 2] = std::to_integer<std::uint8_t>(nibbles[i] >> 4);
  }
}

void unpack_block(Format format, const std::byte* block, std::uint8_t* codes) {
  if (format.is_group() && format.bits == 8) {
    std::transform(block + format.head, block + format.block_bytes(), codes,
                   [](std::byte b) { return std::to_integer<std::uint8_t>(b ^ kSign); });
    return;
  }
  format.is_group() ? unpack_planes(format, block + format.head, codes) : unpack_nibbles(block + format.head, codes);
}

}  // namespace

std::optional<float> integer_step(Format format) {
  const auto* table = code_table(format);
  if (table == nullptr) return std::nullopt;
  for (const float step : {1.0f, 0.5f}) {
    if (std::ranges::all_of(*table, [&](float x) { return std::abs(x / step) <= 127 && x / step == std::trunc(x / step); })) return step;
  }
  return std::nullopt;
}

BlockScale block_scale(Format format, const std::byte* block) {
  const float scale = half_to_float(load_scale(block));
  VITRO_CHECK(format.has_codes(), "a format without codes");
  if (code_table(format) != nullptr) return {scale, 1, 0};
  if (format.zero_point) return {scale, 1, std::to_integer<int>(block[kScaleBytes])};
  if (format.bits == 1) return {scale, 2, 1};
  return {scale, 1, 1 << (format.bits - 1)};
}

void unpack_codes(Format format, const std::byte* row, std::size_t n, std::uint8_t* codes) {
  const std::size_t step = block_elements(format), bytes = block_bytes(format);
  VITRO_CHECK(format.has_codes() && n % step == 0, "a row has to be whole blocks of codes");
  for (std::size_t i = 0; i < n; i += step, row += bytes) unpack_block(format, row, codes + i);
}

void pack_codes(Format format, std::uint16_t scale, std::uint8_t zero, const std::uint8_t* codes, std::byte* block) {
  VITRO_CHECK(format.has_codes(), "a format without codes");
  block[0] = static_cast<std::byte>(scale & 0xff);
  block[1] = static_cast<std::byte>(scale >> 8);
  if (!format.is_group()) {
    for (std::size_t i = 0; i < kBlock / 2; ++i) block[kScaleBytes + i] = static_cast<std::byte>(codes[i] | codes[i + kBlock / 2] << 4);
    return;
  }
  if (format.zero_point) block[kScaleBytes] = static_cast<std::byte>(zero);
  std::byte* out = block + format.head;
  if (format.bits == 8) {
    std::transform(codes, codes + format.block, out, [](std::uint8_t q) { return std::byte{q} ^ kSign; });
    return;
  }
  for (std::size_t i = 0; i < format.bits; ++i) {
    for (std::size_t k = 0; k < format.block / 8; ++k) {
      unsigned byte = 0;
      for (std::size_t j = 0; j < 8; ++j) byte |= ((codes[8 * k + j] >> i) & 1u) << j;
      *out++ = static_cast<std::byte>(byte);
    }
  }
}

void dequantise_codes(Format format, const std::byte* in, float* out, std::size_t n) {
  const std::size_t step = block_elements(format), bytes = block_bytes(format);
  const auto* table = code_table(format);
  std::uint8_t codes[kMostElements];
  for (std::size_t i = 0; i < n; i += step, in += bytes, out += step) {
    unpack_block(format, in, codes);
    const BlockScale block = block_scale(format, in);
    for (std::size_t e = 0; e < step; ++e) {
      out[e] = block.scale * (table != nullptr ? (*table)[codes[e]] : static_cast<float>(block.step * codes[e] - block.zero));
    }
  }
}

std::optional<std::size_t> first_bad_block(Format format, const std::byte* row, std::size_t n) {
  if (!format.zero_point && !format.row_scale) return std::nullopt;
  const std::size_t bytes = block_bytes(format);
  for (std::size_t b = 0; b < n / format.block; ++b) {
    const std::byte* block = row + b * bytes;
    if (format.zero_point && std::to_integer<unsigned>(block[kScaleBytes]) >> format.bits != 0) return b;
    if (format.row_scale && std::memcmp(block, row, format.head) != 0) return b;
  }
  return std::nullopt;
}

}  // namespace vitro
