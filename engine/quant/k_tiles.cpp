#include "engine/quant/k_tiles.hpp"

#include <cstdint>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/transpose.hpp"

namespace vitro {
namespace {

constexpr std::size_t kNibbles = 128, kPairs = 64;                         // bytes of a row's block
constexpr std::size_t kUnit = 4, kLine = kTileRows * kUnit, kChunk = 16;   // of a row in a line; a line; of a row in four lines
constexpr std::size_t kChunkNibbles = 4 * kLine, kChunkPairs = 2 * kLine;  // bytes of 32 columns of a group

// Where the parts of a block of 16 rows stand in the file and in a group.
struct Parts {
  std::size_t halves[2], half_count;  // in the file: binary16 values
  std::size_t scales, scale_bytes;    // in the file
  std::size_t nibbles, pairs;         // in the file
  bool has_pairs;
  std::size_t head() const { return kTileRows * (2 * half_count + scale_bytes); }  // before the first chunk of a group
  std::size_t chunk() const { return kChunkNibbles + (has_pairs ? kChunkPairs : 0); }
};
constexpr Parts kQ4K{{0, 2}, 2, 4, 12, 16, 0, false}, kQ6K{{208, 0}, 1, 192, 16, 0, kNibbles, true};

// A run of 32 bytes in the file holds two times 32 columns: where it begins, and where its low and high nibbles' columns do in chunks.
struct Run {
  std::size_t file, low, high;
};
template <const Parts& kParts>
Run run_of(std::size_t i) {
  if (!kParts.has_pairs) return {32 * i, 32 * i, 32 * i + kChunk};
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

template <const Parts& kParts>
void pack(const std::byte* const* rows, std::byte* tile) {
  std::byte ordered[kTileRows][kNibbles + kPairs];  // as chunks have a row's nibbles and pairs
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t h = 0; h < kParts.half_count; ++h) std::memcpy(tile + 2 * (h * kTileRows + r), rows[r] + kParts.halves[h], 2);
    const std::byte* nibbles = rows[r] + kParts.nibbles;
    for (std::size_t i = 0; i < 4; ++i) {
      const Run run = run_of<kParts>(i);
      exchange(nibbles + run.file, nibbles + run.file + kChunk, ordered[r] + run.low, ordered[r] + run.high);
    }
    for (std::size_t half = 0; kParts.has_pairs && half < kPairs; half += 32) {
      exchange_pairs(rows[r] + kParts.pairs + half, ordered[r] + kNibbles + half);
    }
  }
  for (std::size_t at = 0; at < kParts.scale_bytes; at += 4) {
    Units unit[4];
    for (std::size_t r = 0; r < kTileRows; ++r) {
      std::uint32_t four;
      std::memcpy(&four, rows[r] + kParts.scales + at, sizeof four);
      unit[r / 4][r % 4] = four;
    }
    transpose_bytes(unit);
    std::memcpy(tile + kTileRows * (2 * kParts.half_count + at), unit, sizeof unit);
  }
  std::byte* chunk = tile + kParts.head();
  for (std::size_t c = 0; c < kNibbles; c += kChunk, chunk += kParts.chunk()) {
    to_lines(ordered[0] + c, sizeof ordered[0], chunk);
    if (!kParts.has_pairs || c / kChunk % 2 != 0) continue;
    std::byte lines[4 * kLine];  // of this chunk and the next
    to_lines(ordered[0] + kNibbles + c / 2, sizeof ordered[0], lines);
    std::memcpy(chunk + kChunkNibbles, lines, kChunkPairs);
    std::memcpy(chunk + kParts.chunk() + kChunkNibbles, lines + kChunkPairs, kChunkPairs);
  }
}

template <const Parts& kParts>
void unpack(const std::byte* tile, std::byte* const* rows) {
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t h = 0; h < kParts.half_count; ++h) std::memcpy(rows[r] + kParts.halves[h], tile + 2 * (h * kTileRows + r), 2);
    for (std::size_t i = 0; i < kParts.scale_bytes; ++i) rows[r][kParts.scales + i] = tile[kTileRows * (2 * kParts.half_count + i) + r];
    std::byte ordered[kNibbles + kPairs];
    const std::byte* chunk = tile + kParts.head();
    for (std::size_t c = 0; c < kNibbles; c += kChunk, chunk += kParts.chunk()) {
      from_lines(chunk, ordered + c, r);
      if (!kParts.has_pairs || c / kChunk % 2 != 0) continue;
      std::byte lines[4 * kLine];
      std::memcpy(lines, chunk + kChunkNibbles, kChunkPairs);
      std::memcpy(lines + kChunkPairs, chunk + kParts.chunk() + kChunkNibbles, kChunkPairs);
      from_lines(lines, ordered + kNibbles + c / 2, r);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const Run run = run_of<kParts>(i);
      std::byte* nibbles = rows[r] + kParts.nibbles + run.file;
      exchange(ordered + run.low, ordered + run.high, nibbles, nibbles + kChunk);
    }
    for (std::size_t half = 0; kParts.has_pairs && half < kPairs; half += 32) {
      exchange_pairs(ordered + kNibbles + half, rows[r] + kParts.pairs + half);
    }
  }
}

}  // namespace

void pack_k_block(Format format, const std::byte* const* rows, std::byte* tile) {
  VITRO_CHECK(has_k_tiles(format), "this format has no such tiles");
  format == Format::q4_k ? pack<kQ4K>(rows, tile) : pack<kQ6K>(rows, tile);
}

void unpack_k_block(Format format, const std::byte* tile, std::byte* const* rows) {
  VITRO_CHECK(has_k_tiles(format), "this format has no such tiles");
  format == Format::q4_k ? unpack<kQ4K>(tile, rows) : unpack<kQ6K>(tile, rows);
}

}  // namespace vitro
