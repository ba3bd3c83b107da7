// Weights of the matrix unit, in 4 bits and in fp16.
#include <cstring>
#include <vector>

#include "engine/kernels/common/file_rows.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro::hexagon {
namespace {

constexpr Bytes kBlockBytes = kScaleBytes + kBlockColumns / 2;  // of q4_0
constexpr Bytes kTileNibbles = kTileElements / 2, kGroupsPerPair = 2 * kTileElements / kBlockColumns;
constexpr std::uint32_t kPairColumns = 2 * kTile;  // of fp16: a vector

Bytes strip_bytes(std::uint32_t tiles, bool tile_groups) {
  return tile_groups ? (Bytes{tiles} + 1) / 2 * (kVectorBytes + 2 * kTileNibbles) : tiles * (kVectorBytes + kTileNibbles);
}

void pack_tile(const std::uint8_t* codes, std::byte* out) {
  for (std::uint32_t e = 0; e < kTileElements; e += 2 * kVectorBytes) pack_super_group(codes + e, out + e / 2);
}

bool finite(const std::byte* scale) {
  std::uint16_t bits;
  std::memcpy(&bits, scale, sizeof bits);
  return (bits & 0x7c00u) != 0x7c00u;
}

}  // namespace

bool finite_scales(const View& weights) {
  const std::size_t blocks = columns(weights) / block_elements(weights.format), step = block_bytes(weights.format);
  FileRows in(weights);
  for (std::uint32_t r = 0; r < weights.shape[0]; ++r) {
    const std::byte* row = in[r];
    for (std::size_t b = 0; b < blocks; ++b) {
      if (!finite(row + b * step)) return false;
    }
  }
  return true;
}

bool can_pack_strips(const View& weights) { return weights.format == Format::q4_0 && can_pack(weights) && finite_scales(weights); }

Bytes strips_bytes(std::uint32_t rows, std::uint32_t columns, bool tile_groups) {
  return (Bytes{rows} + kTile - 1) / kTile * strip_bytes(columns / kTile, tile_groups);
}

void pack_strips(const View& weights, Range rows, std::byte* out) {
  const std::uint32_t k = columns(weights), tiles = k / kTile;
  FileRows in(weights);
  std::vector<std::uint8_t> q(k), codes(std::size_t{tiles} * kTileElements);
  std::memset(out, 0, strips_bytes(rows.count, k));
  for (std::uint32_t first = 0; first < rows.count; first += kTile, out += strip_bytes(tiles, false)) {
    std::fill(codes.begin(), codes.end(), std::uint8_t{8});  // of rows that are not there: zero
    for (std::uint32_t n = 0; n < std::min(kTile, rows.count - first); ++n) {
      const std::byte* row = in[rows.first + first + n];
      unpack_codes(weights.format, row, k, q.data());
      for (std::uint32_t t = 0; t < tiles; ++t) {
        for (std::uint32_t twice = 0; twice < 2; ++twice)
          std::memcpy(out + t * kVectorBytes + (2 * n + twice) * kScaleBytes, row + t * kBlockBytes, kScaleBytes);
        for (std::uint32_t r = 0; r < kTile; ++r) codes[t * kTileElements + tile_place(r, n)] = q[t * kTile + r];
      }
    }
    for (std::uint32_t t = 0; t < tiles; ++t) pack_tile(&codes[t * kTileElements], out + tiles * kVectorBytes + t * kTileNibbles);
  }
}

void pack_tile_groups(const float* weights, std::uint32_t rows, std::uint32_t columns, std::byte* out) {
  const std::uint32_t tiles = columns / kTile, pairs = (tiles + 1) / 2;
  std::memset(out, 0, strips_bytes(rows, columns, true));
  std::vector<float> tile(kTileElements);
  std::vector<std::uint8_t> codes(kTileElements);
  for (std::uint32_t first = 0; first < rows; first += kTile, out += strip_bytes(tiles, true)) {
    for (std::uint32_t t = 0; t < tiles; ++t) {
      std::fill(tile.begin(), tile.end(), 0.0f);
      for (std::uint32_t n = 0; n < std::min(kTile, rows - first); ++n) {
        for (std::uint32_t r = 0; r < kTile; ++r) tile[tile_place(r, n)] = weights[std::size_t{first + n} * columns + t * kTile + r];
      }
      for (std::uint32_t g = 0; g < kGroupsPerPair / 2; ++g) {
        std::byte block[18];
        quantise_row(Format::q4_0, &tile[g * kBlockColumns], block, kBlockColumns);
        const std::uint32_t place = t / 2 * 64 + super_group_scale(t % 2 * 32 + g);
        std::memcpy(out + place * kScaleBytes, block, kScaleBytes);
        for (std::uint32_t c = 0; c < kBlockColumns; ++c) {
          const auto both = std::to_integer<std::uint8_t>(block[kScaleBytes + c % 16]);
          codes[g * kBlockColumns + c] = c < 16 ? both & 15 : both >> 4;
        }
      }
      pack_tile(codes.data(), out + pairs * kVectorBytes + t * kTileNibbles);
    }
  }
}

bool one_scale_per_row(const View& weights) {
  const std::uint32_t blocks = columns(weights) / block_elements(weights.format);
  const std::size_t bytes = block_bytes(weights.format);
  if (weights.format.zero_point || weights.format.row_scale) return weights.format.row_scale;
  FileRows in(weights);
  for (std::uint32_t r = 0; r < weights.shape[0]; ++r) {
    const std::byte* row = in[r];
    for (std::uint32_t b = 1; b < blocks; ++b) {
      if (std::memcmp(row, row + b * bytes, kScaleBytes) != 0) return false;
    }
  }
  return true;
}

bool can_pack_f16_strips(const View& weights) {
  const std::uint32_t k = columns(weights);
  return variant::supports(variant::kHmx, weights.format, weights.layout) && k % kTile == 0 && k > 0 && k <= kMostColumns;
}

Bytes f16_strips_bytes(std::uint32_t rows, std::uint32_t columns) {
  return Bytes{round_up(rows, kTile)} * round_up(columns, kPairColumns) * sizeof(std::uint16_t);
}

void pack_f16_strips(const View& weights, Range rows, std::byte* out) {
  const std::uint32_t k = columns(weights);
  FileRows in(weights);
  std::vector<float> values(k);
  std::vector<std::uint16_t> halves(round_up(k, kPairColumns));
  std::memset(out, 0, f16_strips_bytes(rows.count, k));
  for (std::uint32_t r = 0; r < rows.count; ++r) {
    dequantise_row(weights.format, in[rows.first + r], values.data(), k);
    for (std::uint32_t c = 0; c < k; ++c) halves[c] = float_to_half(values[c]);
    std::byte* vector = out + f16_strips_bytes(kTile, k) * (r / kTile) + r % kTile * kVectorBytes;
    for (std::uint32_t c = 0; c < k; c += kPairColumns, vector += kTile * kVectorBytes) std::memcpy(vector, &halves[c], kVectorBytes);
  }
}

}  // namespace vitro::hexagon
