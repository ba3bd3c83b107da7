#include "engine/quant/k_tiles.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/quant/transpose.hpp"

namespace vitro {
namespace {

constexpr std::size_t kNibbles = 128;                                      // bytes of a row's block
constexpr std::size_t kUnit = 4, kLine = kTileRows * kUnit, kChunk = 16;   // of a row in a line; a line; of a row in four lines
constexpr std::size_t kChunks = kNibbles / kChunk, kChunkNibbles = 4 * kLine;  // of 32 columns; bytes of one in a group

// Where the parts of a block of 16 rows stand in the file and in a group.
struct Parts {
  std::size_t halves[2], half_count;  // in the file: binary16 values
  std::size_t scales, scale_bytes;    // in the file
  std::size_t nibbles, high;          // in the file: the low four bits of each weight, and the others
  std::size_t high_bits;              // of a weight: 0, 1 or 2
  std::size_t head() const { return kTileRows * (2 * half_count + scale_bytes); }  // before the first chunk of a group
  std::size_t chunk() const { return kChunkNibbles + high_bits * kLine; }
  std::size_t high_bytes() const { return high_bits * 32; }
  // Which columns share a byte: 32 apart, in runs of 64; 64 apart, in halves of 128; or 16 apart, as in a chunk.
  bool in_halves() const { return high_bits == 2; }
  bool as_chunks = false;
};
constexpr Parts kQ4K{{0, 2}, 2, 4, 12, 16, 0, 0}, kQ5K{{0, 2}, 2, 4, 12, 48, 16, 1}, kQ6K{{208, 0}, 1, 192, 16, 0, kNibbles, 2},
    kIq4Xs{{0, 0}, 1, 2, 6, 8, 0, 0, true};
constexpr std::size_t kMostHigh = 64;

// A run of 32 bytes in the file holds two times 32 columns: where it begins, and where its low and high nibbles' columns do in chunks.
struct Run {
  std::size_t file, low, high;
};
template <const Parts& kParts>
Run run_of(std::size_t i) {
  if (!kParts.in_halves()) return {32 * i, 32 * i, 32 * i + kChunk};
  return {32 * i, 64 * (i / 2) + kChunk * (i % 2), 64 * (i / 2) + 32 + kChunk * (i % 2)};
}

// A run's low nibbles are 32 columns and its high ones another 32; a chunk has columns 0 to 15 of its own in low nibbles and 16 to 31 in
// high ones. The way back is the same.
void exchange(const std::byte* first, const std::byte* second, std::byte* low, std::byte* high) {
  Bytes16 a, b;
  std::memcpy(&a, first, sizeof a);
  std::memcpy(&b, second, sizeof b);
  const Bytes16 even = (a & 15) | (b << 4), odd = (a >> 4) | (b & 0xf0);
  std::memcpy(low, &even, sizeof even);
  std::memcpy(high, &odd, sizeof odd);
}

// A row's nibbles from the file's order to that of chunks, and back.
template <const Parts& kParts>
void order_nibbles(const std::byte* file, std::byte* chunks) {
  if (kParts.as_chunks) {
    std::memcpy(chunks, file, kNibbles);
    return;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const Run run = run_of<kParts>(i);
    exchange(file + run.file, file + run.file + kChunk, chunks + run.low, chunks + run.high);
  }
}
template <const Parts& kParts>
void restore_nibbles(const std::byte* chunks, std::byte* file) {
  if (kParts.as_chunks) {
    std::memcpy(file, chunks, kNibbles);
    return;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const Run run = run_of<kParts>(i);
    exchange(chunks + run.low, chunks + run.high, file + run.file, file + run.file + kChunk);
  }
}

// Pairs of bits of half a block: word f of four has columns 8f to 8f + 7 of four times 32 columns, 32 columns a pair; then it has four
// times 8 columns of 32 columns. The way back is the same.
void exchange_pairs(const std::byte* from, std::byte* to) {
  std::uint64_t in[4], out[4] = {};
  std::memcpy(in, from, sizeof in);
  for (std::size_t q = 0; q < 4; ++q) {
    for (std::size_t f = 0; f < 4; ++f) out[q] |= (in[f] >> 2 * q & 0x0303030303030303u) << 2 * f;
  }
  std::memcpy(to, out, sizeof out);
}

// Single bits of a block: bit g of byte 4 j + i has column 4 j + i of the g-th 32; then bit j of byte 4 g + i has it. The way back is the
// same.
void exchange_bits(const std::byte* from, std::byte* to) {
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint64_t x = 0;
    for (std::size_t j = 0; j < 8; ++j) x |= std::to_integer<std::uint64_t>(from[4 * j + i]) << 8 * j;
    for (const auto& [shift, mask] : {std::pair{7, 0x00aa00aa00aa00aau}, {14, 0x0000cccc0000ccccu}, {28, 0x00000000f0f0f0f0u}}) {
      const std::uint64_t differ = (x ^ x >> shift) & mask;  // an 8 x 8 matrix of bits is transposed in blocks of 1, 2 and 4
      x ^= differ ^ differ << shift;
    }
    for (std::size_t j = 0; j < 8; ++j) to[4 * j + i] = static_cast<std::byte>(x >> 8 * j);
  }
}
template <const Parts& kParts>
void exchange_high(const std::byte* from, std::byte* to) {
  if constexpr (kParts.high_bits == 1) exchange_bits(from, to);
  for (std::size_t half = 0; kParts.in_halves() && half < kParts.high_bytes(); half += 32) exchange_pairs(from + half, to + half);
}

// 16 bytes of each row, `stride` apart, become four lines.
void to_lines(const std::byte* rows, std::size_t stride, std::byte* lines) {
  for (std::size_t r = 0; r < kTileRows; r += 4) {
    Units unit[4];
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(&unit[i], rows + (r + i) * stride, sizeof unit[i]);
    transpose(unit);
    for (std::size_t j = 0; j < 4; ++j) std::memcpy(lines + r * kUnit + j * kLine, &unit[j], sizeof unit[j]);
  }
}
void from_lines(const std::byte* lines, std::byte* row, std::size_t r) {
  for (std::size_t j = 0; j < 4; ++j) std::memcpy(row + kUnit * j, lines + r * kUnit + j * kLine, kUnit);
}

// Where line `i` of a group's high bits stands.
template <const Parts& kParts>
std::size_t high_line(std::size_t i) {
  constexpr std::size_t kOfChunk = kParts.high_bits == 0 ? 1 : kParts.high_bits;
  return kParts.head() + i / kOfChunk * kParts.chunk() + kChunkNibbles + i % kOfChunk * kLine;
}

template <const Parts& kParts>
void pack(const std::byte* const* rows, std::byte* tile) {
  std::byte ordered[kTileRows][kNibbles + kMostHigh];  // as chunks have a row's nibbles and high bits
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t h = 0; h < kParts.half_count; ++h) std::memcpy(tile + 2 * (h * kTileRows + r), rows[r] + kParts.halves[h], 2);
    order_nibbles<kParts>(rows[r] + kParts.nibbles, ordered[r]);
    exchange_high<kParts>(rows[r] + kParts.high, ordered[r] + kNibbles);
  }
  std::size_t at = 0;
  for (; at + 4 <= kParts.scale_bytes; at += 4) {
    Units unit[4];
    for (std::size_t r = 0; r < kTileRows; ++r) {
      std::uint32_t four;
      std::memcpy(&four, rows[r] + kParts.scales + at, sizeof four);
      unit[r / 4][r % 4] = four;
    }
    transpose_bytes(unit);
    std::memcpy(tile + kTileRows * (2 * kParts.half_count + at), unit, sizeof unit);
  }
  for (; at < kParts.scale_bytes; ++at) {
    for (std::size_t r = 0; r < kTileRows; ++r) tile[kTileRows * (2 * kParts.half_count + at) + r] = rows[r][kParts.scales + at];
  }
  for (std::size_t c = 0; c < kChunks; ++c) to_lines(ordered[0] + c * kChunk, sizeof ordered[0], tile + kParts.head() + c * kParts.chunk());
  for (std::size_t high = 0; high < kParts.high_bytes(); high += 16) {
    std::byte lines[4 * kLine];
    to_lines(ordered[0] + kNibbles + high, sizeof ordered[0], lines);
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(tile + high_line<kParts>(high / kUnit + i), lines + i * kLine, kLine);
  }
}

template <const Parts& kParts>
void unpack(const std::byte* tile, std::byte* const* rows) {
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t h = 0; h < kParts.half_count; ++h) std::memcpy(rows[r] + kParts.halves[h], tile + 2 * (h * kTileRows + r), 2);
    for (std::size_t i = 0; i < kParts.scale_bytes; ++i) rows[r][kParts.scales + i] = tile[kTileRows * (2 * kParts.half_count + i) + r];
    std::byte ordered[kNibbles + kMostHigh];
    for (std::size_t c = 0; c < kChunks; ++c) from_lines(tile + kParts.head() + c * kParts.chunk(), ordered + c * kChunk, r);
    for (std::size_t high = 0; high < kParts.high_bytes(); high += kUnit) {
      std::memcpy(ordered + kNibbles + high, tile + high_line<kParts>(high / kUnit) + r * kUnit, kUnit);
    }
    restore_nibbles<kParts>(ordered, rows[r] + kParts.nibbles);
    exchange_high<kParts>(ordered + kNibbles, rows[r] + kParts.high);
  }
}

template <typename Act>
void with_parts(Format format, const Act& act) {
  VITRO_CHECK(has_k_tiles(format), "this format has no such tiles");
  if (format == Format::q4_k) return act.template operator()<kQ4K>();
  if (format == Format::q5_k) return act.template operator()<kQ5K>();
  if (format == Format::iq4_xs) return act.template operator()<kIq4Xs>();
  act.template operator()<kQ6K>();
}

}  // namespace

void pack_k_block(Format format, const std::byte* const* rows, std::byte* tile) {
  with_parts(format, [&]<const Parts& kParts>() { pack<kParts>(rows, tile); });
}

void unpack_k_block(Format format, const std::byte* tile, std::byte* const* rows) {
  with_parts(format, [&]<const Parts& kParts>() { unpack<kParts>(tile, rows); });
}

}  // namespace vitro
