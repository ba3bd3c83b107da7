#include "engine/quant/tiles.hpp"

#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr std::size_t kScale = 2, kUnit = 4;

// Calls move(offset in the rows, offset in the tile, bytes) for every piece that tiling moves.
template <class Move>
void for_each_piece(Format format, std::size_t columns, Move move) {
  VITRO_CHECK(can_tile(format, kTileRows) && columns % kBlock == 0, "this format has no tiled form");
  const std::size_t block = block_bytes(format), blocks = columns / kBlock, row = blocks * block;
  const std::size_t units = (block - kScale) / kUnit;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t tile = b * kTileRows * block;
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const std::size_t source = r * row + b * block;
      move(source, tile + r * kScale, kScale);
      for (std::size_t j = 0; j < units; ++j) {
        move(source + kScale + j * kUnit, tile + kTileRows * kScale + (j * kTileRows + r) * kUnit, kUnit);
      }
    }
  }
}

}  // namespace

bool can_tile(Format format, std::uint64_t rows) {
  return (format == Format::q4_0 || format == Format::q8_0) && rows > 0 && rows % kTileRows == 0;
}

void pack_tile(Format format, std::size_t columns, const std::byte* rows_in, std::byte* tile_out) {
  for_each_piece(format, columns,
                 [&](std::size_t row, std::size_t tile, std::size_t n) { std::memcpy(tile_out + tile, rows_in + row, n); });
}

void unpack_tile(Format format, std::size_t columns, const std::byte* tile_in, std::byte* rows_out) {
  for_each_piece(format, columns,
                 [&](std::size_t row, std::size_t tile, std::size_t n) { std::memcpy(rows_out + row, tile_in + tile, n); });
}

}  // namespace vitro
