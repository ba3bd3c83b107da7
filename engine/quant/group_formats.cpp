#include "engine/quant/group_formats.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

static_assert(std::endian::native == std::endian::little, "eight codes are put together in a word");

constexpr auto kFirst = static_cast<unsigned>(Format::w1g32), kFirstZero = static_cast<unsigned>(Format::w1g32z);
constexpr auto kFirstRow = static_cast<unsigned>(Format::w1g32r), kOfKind = 12u;
constexpr auto last_of(unsigned first) { return static_cast<Format>(first + kOfKind - 1); }
static_assert(last_of(kFirst) == Format::w4g128 && last_of(kFirstZero) == Format::w4g128z && last_of(kFirstRow) == Format::w4g128r,
              "formats are numbered by kind, bits and group");

constexpr std::size_t kScaleBytes = 2;
constexpr std::size_t kMostElements = 128;

constexpr std::array<float, kCodes> kIq4Nl{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Sign, two bits of exponent (bias 1), one of fraction.
constexpr std::array<float, kCodes> kFp4{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
constexpr std::array<float, kCodes> kNf4{-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

// Byte j of word b is bit j of b.
constexpr std::array<std::uint64_t, 256> kSpread = [] {
  std::array<std::uint64_t, 256> words{};
  for (std::uint64_t b = 0; b < 256; ++b) {
    for (unsigned j = 0; j < 8; ++j) words[b] |= ((b >> j) & 1) << (8 * j);
  }
  return words;
}();

std::size_t header_bytes(const GroupFormat& group) { return kScaleBytes + (group.zero_point ? 1 : 0); }

std::uint16_t load_scale(const std::byte* block) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(block[0]) | std::to_integer<unsigned>(block[1]) << 8);
}

void unpack_planes(const GroupFormat& group, const std::byte* planes, std::uint8_t* codes) {
  const std::size_t plane = group.group / 8;
  for (std::size_t k = 0; k < plane; ++k) {
    std::uint64_t eight = 0;
    for (std::size_t i = 0; i < group.bits; ++i) eight |= kSpread[std::to_integer<std::size_t>(planes[i * plane + k])] << i;
    std::memcpy(codes + 8 * k, &eight, sizeof eight);
  }
}

void unpack_nibbles(const std::byte* nibbles, std::uint8_t* codes) {
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    codes[i] = std::to_integer<std::uint8_t>(nibbles[i] & std::byte{15});
    codes[i + kBlock / 2] = std::to_integer<std::uint8_t>(nibbles[i] >> 4);
  }
}

void unpack_block(const std::optional<GroupFormat>& group, const std::byte* block, std::uint8_t* codes) {
  group ? unpack_planes(*group, block + header_bytes(*group), codes) : unpack_nibbles(block + kScaleBytes, codes);
}

}  // namespace

std::optional<GroupFormat> group_format(Format format) {
  const auto id = static_cast<unsigned>(format);
  for (const unsigned first : {kFirst, kFirstZero, kFirstRow}) {
    const unsigned at = id - first;
    if (at < kOfKind) return GroupFormat{at / 3 + 1, 32u << at % 3, first == kFirstZero, first == kFirstRow};
  }
  return std::nullopt;
}

Format group_format(GroupFormat format) {
  const bool known = format.bits >= 1 && format.bits <= 4 && (format.group == 32 || format.group == 64 || format.group == 128) &&
                     !(format.zero_point && format.row_scale);
  VITRO_CHECK(known, "there is no such group format");
  const auto size = static_cast<unsigned>(std::countr_zero(format.group / 32));
  return static_cast<Format>((format.zero_point ? kFirstZero : format.row_scale ? kFirstRow : kFirst) + 3 * (format.bits - 1) + size);
}

const std::array<float, kCodes>* code_table(Format format) {
  if (format == Format::iq4_nl) return &kIq4Nl;
  if (format == Format::fp4) return &kFp4;
  if (format == Format::nf4) return &kNf4;
  return nullptr;
}

bool has_codes(Format format) { return group_format(format) || format == Format::q4_0 || code_table(format) != nullptr; }

std::uint32_t code_bits(Format format) {
  VITRO_CHECK(has_codes(format), "a format without codes");
  return group_format(format).value_or(GroupFormat{}).bits;
}

BlockScale block_scale(Format format, const std::byte* block) {
  const float scale = half_to_float(load_scale(block));
  if (const auto group = group_format(format)) {
    if (group->zero_point) return {scale, 1, std::to_integer<int>(block[kScaleBytes])};
    if (group->bits == 1) return {scale, 2, 1};
    return {scale, 1, 1 << (group->bits - 1)};
  }
  VITRO_CHECK(has_codes(format), "a format without codes");
  return {scale, 1, format == Format::q4_0 ? 8 : 0};
}

void unpack_codes(Format format, const std::byte* row, std::size_t n, std::uint8_t* codes) {
  const std::size_t step = block_elements(format), bytes = block_bytes(format);
  VITRO_CHECK(has_codes(format) && n % step == 0, "a row has to be whole blocks of codes");
  const auto group = group_format(format);
  for (std::size_t i = 0; i < n; i += step, row += bytes) unpack_block(group, row, codes + i);
}

void pack_codes(Format format, std::uint16_t scale, std::uint8_t zero, const std::uint8_t* codes, std::byte* block) {
  VITRO_CHECK(has_codes(format), "a format without codes");
  const auto group = group_format(format);
  block[0] = static_cast<std::byte>(scale & 0xff);
  block[1] = static_cast<std::byte>(scale >> 8);
  if (!group) {
    for (std::size_t i = 0; i < kBlock / 2; ++i) block[kScaleBytes + i] = static_cast<std::byte>(codes[i] | codes[i + kBlock / 2] << 4);
    return;
  }
  if (group->zero_point) block[kScaleBytes] = static_cast<std::byte>(zero);
  std::byte* out = block + header_bytes(*group);
  for (std::size_t i = 0; i < group->bits; ++i) {
    for (std::size_t k = 0; k < group->group / 8; ++k) {
      unsigned byte = 0;
      for (std::size_t j = 0; j < 8; ++j) byte |= ((codes[8 * k + j] >> i) & 1u) << j;
      *out++ = static_cast<std::byte>(byte);
    }
  }
}

void dequantise_codes(Format format, const std::byte* in, float* out, std::size_t n) {
  const std::size_t step = block_elements(format), bytes = block_bytes(format);
  const auto group = group_format(format);
  const auto* table = code_table(format);
  std::uint8_t codes[kMostElements];
  for (std::size_t i = 0; i < n; i += step, in += bytes, out += step) {
    unpack_block(group, in, codes);
    const BlockScale block = block_scale(format, in);
    for (std::size_t e = 0; e < step; ++e) {
      out[e] = block.scale * (table != nullptr ? (*table)[codes[e]] : static_cast<float>(block.step * codes[e] - block.zero));
    }
  }
}

std::optional<std::size_t> first_bad_block(Format format, const std::byte* row, std::size_t n) {
  const auto group = group_format(format);
  if (!group || !(group->zero_point || group->row_scale)) return std::nullopt;
  const std::size_t bytes = block_bytes(format);
  for (std::size_t b = 0; b < n / group->group; ++b) {
    const std::byte* block = row + b * bytes;
    if (group->zero_point && std::to_integer<unsigned>(block[kScaleBytes]) >> group->bits != 0) return b;
    if (group->row_scale && load_scale(block) != load_scale(row)) return b;
  }
  return std::nullopt;
}

}  // namespace vitro
