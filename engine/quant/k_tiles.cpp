#include "engine/quant/k_tiles.hpp"

#include <cstdint>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/transpose.hpp"

namespace vitro {
namespace {

constexpr std::size_t kNibbles = 128, kPairs = 64;                            // bytes of a row's block
constexpr std::size_t kUnit = 4, kLine = kTileRows * kUnit, kChunk = 16;      // of a row in a line; a line; of a row in four lines
constexpr std::size_t kChunkNibbles = 4 * kLine, kChunkPairs = 2 * kLine;     // bytes of 32 columns of a group

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

const Parts& parts_of(Format format) {
  VITRO_CHECK(has_k_tiles(format), "this format has no such tiles");
  return format == Format::q4_k ? kQ4K : kQ6K;
}

// Where the nibbles of 32 columns begin in a row of chunks, and where bytes 0 to 15 and 16 to 31 of a file's run of 32 bytes do that
// holds them and those of `other` 32 columns. Run i of four.
struct Run {
  std::size_t file, low, high;
};
Run run_of(const Parts& parts, std::size_t i) {
  if (!parts.has_pairs) return {32 * i, 32 * i, 32 * i + kChunk};
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

}  // namespace

void pack_k_block(Format format, const std::byte* const* rows, std::byte* tile) {
  const Parts& parts = parts_of(format);
  std::byte ordered[kTileRows][kNibbles + kPairs];  // as chunks have a row's nibbles and pairs
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t h = 0; h < parts.half_count; ++h) std::memcpy(tile + 2 * (h * kTileRows + r), rows[r] + parts.halves[h], 2);
    const std::byte* nibbles = rows[r] + parts.nibbles;
    for (std::size_t i = 0; i < 4; ++i) {
      const Run run = run_of(parts, i);
      exchange(nibbles + run.file, nibbles + run.file + kChunk, ordered[r] + run.low, ordered[r] + run.high);
    }
    for (std::size_t half = 0; parts.has_pairs && half < kPairs; half += 32) {
      exchange_pairs(rows[r] + parts.pairs + half, ordered[r] + kNibbles + half);
    }
  }
  for (std::size_t at = 0; at < parts.scale_bytes; at += 4) {
    Units unit[4];
    for (std::size_t r = 0; r < kTileRows; ++r) {
      std::uint32_t four;
      std::memcpy(&four, rows[r] + parts.scales + at, sizeof four);
      unit[r / 4][r % 4] = four;
    }
    transpose_bytes(unit);
    std::memcpy(tile + kTileRows * (2 * parts.half_count + at), unit, sizeof unit);
  }
  std::byte* chunk = tile + parts.head();
  for (std::size_t c = 0; c < kNibbles; c += kChunk, chunk += parts.chunk()) {
    to_lines(ordered[0] + c, sizeof ordered[0], chunk);
    if (!parts.has_pairs || c / kChunk % 2 != 0) continue;
    std::byte lines[4 * kLine];  // of this chunk and the next
    to_lines(ordered[0] + kNibbles + c / 2, sizeof ordered[0], lines);
    std::memcpy(chunk + kChunkNibbles, lines, kChunkPairs);
    std::memcpy(chunk + parts.chunk() + kChunkNibbles, lines + kChunkPairs, kChunkPairs);
  }
}

void unpack_k_block(Format format, const std::byte* tile, std::byte* const* rows) {
  const Parts& parts = parts_of(format);
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t h = 0; h < parts.half_count; ++h) std::memcpy(rows[r] + parts.halves[h], tile + 2 * (h * kTileRows + r), 2);
    for (std::size_t i = 0; i < parts.scale_bytes; ++i) rows[r][parts.scales + i] = tile[kTileRows * (2 * parts.half_count + i) + r];
    std::byte ordered[kNibbles + kPairs];
    const std::byte* chunk = tile + parts.head();
    for (std::size_t c = 0; c < kNibbles; c += kChunk, chunk += parts.chunk()) {
      from_lines(chunk, ordered + c, r);
      if (!parts.has_pairs || c / kChunk % 2 != 0) continue;
      std::byte lines[4 * kLine];
      std::memcpy(lines, chunk + kChunkNibbles, kChunkPairs);
      std::memcpy(lines + kChunkPairs, chunk + parts.chunk() + kChunkNibbles, kChunkPairs);
      from_lines(lines, ordered + kNibbles + c / 2, r);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const Run run = run_of(parts, i);
      std::byte* nibbles = rows[r] + parts.nibbles + run.file;
      exchange(ordered + run.low, ordered + run.high, nibbles, nibbles + kChunk);
    }
    for (std::size_t half = 0; parts.has_pairs && half < kPairs; half += 32) {
      exchange_pairs(ordered + kNibbles + half, rows[r] + parts.pairs + half);
    }
  }
}

}  // namespace vitro
