#include "engine/quant/tile_groups.hpp"

#include <array>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr std::size_t kTileColumns = 32, kPairGroups = 64;  // of a tile; of a pair of tiles
constexpr std::size_t kVector = kSuperGroup / 2, kTileCodes = kStripRows * kTileColumns / 2;
constexpr std::size_t kRowBlock = 3;  // of two columns of a row by itself
static_assert(Format::q4_0_tile.block_bytes() == kRowBlock && kGroupOutputs * kGroupInputs == kBlock);

// Of element (row, column) in a strip: its group's scale, its byte, and the lowest bit there.
struct Place {
  std::size_t scale, byte;
  unsigned shift;
};

// Of a super-group's element.
constexpr std::size_t code_byte(std::size_t e) { return 2 * (e % 64) + e / 64 % 2; }
constexpr unsigned code_shift(std::size_t e) { return e < kSuperGroup / 2 ? 0 : 4; }

Place place_of(std::size_t columns, std::size_t row, std::size_t column) {
  const std::size_t tile = column / kTileColumns, k = column % kTileColumns, e = k / 2 * 64 + 2 * row + k % 2;
  const std::size_t scale = super_group_scale(static_cast<std::uint32_t>(tile % 2 * (kPairGroups / 2) + e / kBlock));
  const std::size_t super_group = columns / kStripColumns * kVector + tile * kTileCodes + e / kSuperGroup * kVector;
  return {tile / 2 * kVector + 2 * scale, super_group + code_byte(e % kSuperGroup), code_shift(e % kSuperGroup)};
}

void check_columns(std::size_t columns) {
  VITRO_CHECK(columns > 0 && columns % kStripColumns == 0, "strips have whole pairs of tiles");
}

}  // namespace

void pack_super_group(const std::uint8_t* codes, std::byte* out) {
  std::memset(out, 0, kVector);
  for (std::size_t e = 0; e < kSuperGroup; ++e) out[code_byte(e)] |= static_cast<std::byte>(codes[e] << code_shift(e));
}

std::uint32_t super_group_scale(std::uint32_t group) { return group / 8 * 8 + group % 4 * 2 + group % 8 / 4; }

void quantise_strip(const float* w, std::size_t columns, std::byte* out) {
  check_columns(columns);
  std::memset(out, 0, kStripRows * row_bytes(Format::q4_0_tile, columns, Layout::strips));
  std::array<float, kBlock> group;
  std::array<std::byte, 18> block;
  for (std::size_t row = 0; row < kStripRows; row += kGroupOutputs) {
    for (std::size_t column = 0; column < columns; column += kGroupInputs) {
      for (std::size_t i = 0; i < kBlock; ++i) group[i] = w[(row + i / kGroupInputs) * columns + column + i % kGroupInputs];
      quantise_row(Format::q4_0, group.data(), block.data(), kBlock);
      std::memcpy(out + place_of(columns, row, column).scale, block.data(), 2);
      for (std::size_t i = 0; i < kBlock; ++i) {
        const std::byte code = i < kBlock / 2 ? block[2 + i] & std::byte{15} : block[2 + i - kBlock / 2] >> 4;
        const Place at = place_of(columns, row + i / kGroupInputs, column + i % kGroupInputs);
        out[at.byte] |= code << at.shift;
      }
    }
  }
}

void pack_strip(std::size_t columns, const std::byte* rows_in, std::byte* strip_out) {
  check_columns(columns);
  std::memset(strip_out, 0, kStripRows * row_bytes(Format::q4_0_tile, columns, Layout::strips));
  for (std::size_t row = 0; row < kStripRows; ++row) {
    for (std::size_t column = 0; column < columns; column += kGroupInputs, rows_in += kRowBlock) {
      std::memcpy(strip_out + place_of(columns, row, column).scale, rows_in, 2);
      for (unsigned i = 0; i < kGroupInputs; ++i) {
        const Place at = place_of(columns, row, column + i);
        strip_out[at.byte] |= (rows_in[2] >> 4 * i & std::byte{15}) << at.shift;
      }
    }
  }
}

void unpack_strip(std::size_t columns, const std::byte* strip_in, std::byte* rows_out) {
  check_columns(columns);
  for (std::size_t row = 0; row < kStripRows; ++row) {
    for (std::size_t column = 0; column < columns; column += kGroupInputs, rows_out += kRowBlock) {
      std::memcpy(rows_out, strip_in + place_of(columns, row, column).scale, 2);
      rows_out[2] = {};
      for (unsigned i = 0; i < kGroupInputs; ++i) {
        const Place at = place_of(columns, row, column + i);
        rows_out[2] |= (strip_in[at.byte] >> at.shift & std::byte{15}) << 4 * i;
      }
    }
  }
}

void dequantise_strip_rows(const std::byte* strip, std::size_t columns, std::size_t first, std::size_t count, float* out) {
  const std::byte* codes = strip + columns / kStripColumns * kVector;
  // Columns 2p and 2p + 1 of a tile are neighbours in super-group p / 4, at elements that are 64 apart from pair to pair.
  for (std::size_t tile = 0; tile < columns / kTileColumns; ++tile) {
    const std::byte *scales = strip + tile / 2 * kVector, *of_tile = codes + tile * kTileCodes;
    for (std::size_t p = 0; p < kTileColumns / 2; ++p) {
      float of_outputs[kStripRows / kGroupOutputs];
      for (std::uint32_t i = 0; i < std::size(of_outputs); ++i) {
        std::uint16_t half;
        const auto group = static_cast<std::uint32_t>(tile % 2 * (kPairGroups / 2) + 2 * p) + i;
        std::memcpy(&half, scales + 2 * super_group_scale(group), sizeof half);
        of_outputs[i] = half_to_float(half);
      }
      // Four bytes have the codes of a row's pairs p and p ^ 1, and of those of the tile's other half.
      const std::byte* words = of_tile + p / 4 * kVector;
      const unsigned shift = p % 2 * 8 + (p % 4 < 2 ? 0 : 4);
      float codes_of[kGroupInputs][kStripRows];
      for (std::size_t row = first; row < first + count; ++row) {
        std::uint32_t word;
        std::memcpy(&word, words + 4 * row, sizeof word);
        codes_of[0][row] = static_cast<float>(static_cast<int>(word >> shift & 15) - 8);
        codes_of[1][row] = static_cast<float>(static_cast<int>(word >> (shift + 16) & 15) - 8);
      }
      float* to = out + tile * kTileColumns + 2 * p;
      for (std::size_t row = first; row < first + count; ++row, to += columns) {
        const float d = of_outputs[row / kGroupOutputs];
        to[0] = d * codes_of[0][row];
        to[1] = d * codes_of[1][row];
      }
    }
  }
}

}  // namespace vitro
