// Weights of the matrix unit, in 4 and 8 bits and in fp16.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "engine/kernels/common/file_rows.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/outlier_strips.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/outlier_rows.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro::hexagon {
namespace {

constexpr Bytes kBlockBytes = kScaleBytes + kBlockColumns / 2;  // of q4_0
constexpr Bytes kTileNibbles = kTileElements / 2;
constexpr std::uint32_t kPairColumns = 2 * kTile;  // of fp16: a vector
static_assert(kStripRows == kTile && kStripColumns == kPairColumns && kSuperGroup == 2 * kVectorBytes);

bool in_tile_groups(const View& weights) { return weights.format == Format::q4_0_tile && weights.layout == Layout::strips; }

Bytes strip_bytes(Scales scales, std::uint32_t tiles) {
  if (scales == Scales::of_outlier_rows) return OutlierStrip{tiles * kTile}.nibbles() + tiles * kTileNibbles;
  const Bytes vectors = scales == Scales::of_tile_groups ? (Bytes{tiles} + 1) / 2 : tiles;
  return vectors * kVectorBytes + tiles * kTileNibbles;
}

// Of an element of a tile, in order: its byte in a strip of q8_0.
std::uint32_t q8_strip_byte(std::uint32_t element) {
  const std::uint32_t half = kVectorBytes / 2, within = element % kVectorBytes;
  return element - within + within % half * 2 + within / half;
}

void pack_tile(const std::uint8_t* codes, std::byte* out) {
  for (std::uint32_t e = 0; e < kTileElements; e += 2 * kVectorBytes) pack_super_group(codes + e, out + e / 2);
}

void pack_q8_strips(const View& weights, Range rows, std::byte* out) {
  constexpr Bytes kBlock = kScaleBytes + kBlockColumns;
  const std::uint32_t k = columns(weights), tiles = k / kTile;
  FileRows in(weights);
  std::memset(out, 0, q8_strips_bytes(rows.count, k));
  for (std::uint32_t i = 0; i < rows.count; ++i) {
    const std::uint32_t n = i % kTile;
    std::byte* strip = out + q8_strips_bytes(kTile, k) * (i / kTile);
    const std::byte* block = in[rows.first + i];
    for (std::uint32_t t = 0; t < tiles; ++t, block += kBlock) {
      std::byte *scales = strip + t * kVectorBytes, *values = strip + tiles * kVectorBytes + t * kTileElements;
      for (const std::uint32_t twice : {0u, 1u}) std::memcpy(scales + (2 * n + twice) * kScaleBytes, block, kScaleBytes);
      for (std::uint32_t r = 0; r < kTile; ++r) values[q8_strip_byte(tile_place(r, n))] = block[kScaleBytes + r];
    }
  }
}

std::uint16_t half_at(const std::byte* p) {
  std::uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return half;
}

// Of 32 rows, those that are there.
class OutlierStripWriter {
 public:
  OutlierStripWriter(std::uint32_t columns, std::byte* out)
      : columns_(columns),
        out_(out),
        codes_(std::size_t{at_.tiles()} * kTileElements, kNothing),
        places_(at_.tiles()),
        values_(at_.tiles()) {}

  void add(std::uint32_t n, const std::byte* row) {
    const OutlierRow in{columns_};
    for (const std::uint32_t twice : {0u, 1u}) {
      std::memcpy(out_ + at_.scales() + (2 * n + twice) * kScaleBytes, row + in.scale(), kScaleBytes);
      std::memcpy(out_ + at_.outlier_scales() + (2 * n + twice) * kScaleBytes, row + in.outlier_scale(), kScaleBytes);
    }
    for (std::uint32_t k = 0; k < columns_; ++k) {
      const auto byte = std::to_integer<unsigned>(row[in.nibbles() + k / kTile * (kTile / 2) + k % (kTile / 2)]);
      codes_[k / kTile * kTileElements + tile_place(k % kTile, n)] = static_cast<std::uint8_t>(byte >> k % kTile / (kTile / 2) * 4 & 15);
    }
    for (std::size_t j = 0; j < in.outliers(); ++j) {
      const std::uint32_t k = half_at(row + in.positions() + 2 * j), tile = k / kTile;
      places_[tile].push_back(static_cast<std::uint16_t>(tile % kSpanTiles * kTileElements + tile_place(k % kTile, n)));
      values_[tile].push_back(row[in.values() + j]);
    }
  }

  void write() {
    std::size_t outlier = 0;
    for (std::uint32_t t = 0; t < at_.tiles(); ++t) {
      std::ranges::copy(values_[t], out_ + at_.values() + outlier);
      std::ranges::copy(std::as_bytes(std::span(places_[t])), out_ + at_.places() + 2 * outlier);
      outlier += places_[t].size();
      const auto end = static_cast<std::uint16_t>(outlier);
      std::memcpy(out_ + at_.ends() + 2 * t, &end, sizeof end);
      pack_tile(&codes_[std::size_t{t} * kTileElements], out_ + at_.nibbles() + t * kTileNibbles);
    }
    VITRO_CHECK(outlier <= at_.outliers(), "a strip has room for all outliers");
  }

 private:
  const std::uint32_t columns_;
  const OutlierStrip at_{columns_};
  std::byte* out_;
  std::vector<std::uint8_t> codes_;  // of rows that are not there: zero
  std::vector<std::vector<std::uint16_t>> places_;  // [tiles]
  std::vector<std::vector<std::byte>> values_;
};

void pack_outlier_strips(const View& weights, Range rows, std::byte* out) {
  const std::uint32_t k = columns(weights);
  FileRows in(weights);
  std::memset(out, 0, strips_bytes(Scales::of_outlier_rows, rows.count, k));
  for (std::uint32_t first = 0; first < rows.count; first += kTile, out += strip_bytes(Scales::of_outlier_rows, k / kTile)) {
    OutlierStripWriter strip(k, out);
    for (std::uint32_t n = 0; n < std::min(kTile, rows.count - first); ++n) strip.add(n, in[rows.first + first + n]);
    strip.write();
  }
}

}  // namespace

bool is_finite_half(const std::byte* half) {
  std::uint16_t bits;
  std::memcpy(&bits, half, sizeof bits);
  return (bits & 0x7c00u) != 0x7c00u;
}

bool finite_scales(const View& weights) {
  const bool outliers = weights.format.has_outliers();  // of a row, whose two scales stand first
  const std::size_t blocks = outliers ? 2 : columns(weights) / block_elements(weights.format);
  const std::size_t step = outliers ? kScaleBytes : block_bytes(weights.format);
  FileRows in(weights);
  for (std::uint32_t r = 0; r < weights.shape[0]; ++r) {
    const std::byte* row = in[r];
    for (std::size_t b = 0; b < blocks; ++b) {
      if (!is_finite_half(row + b * step)) return false;
    }
  }
  return true;
}

namespace {

bool undamaged(const View& weights) {
  FileRows in(weights);
  for (std::uint32_t r = 0; r < weights.shape[0]; ++r) {
    if (outlier_damage(in[r], columns(weights))) return false;
  }
  return true;
}

}  // namespace

bool can_pack_strips(const View& weights) {
  const std::uint32_t k = columns(weights);
  const bool others = in_tile_groups(weights) || (weights.format.has_outliers() && k > 0 && k % kTile == 0);
  if (weights.format.has_outliers() && !(others && undamaged(weights))) return false;
  return ((others && k <= kMostColumns) || can_pack(weights)) && finite_scales(weights);
}

Bytes strips_bytes(Scales scales, std::uint32_t rows, std::uint32_t columns) {
  return (Bytes{rows} + kTile - 1) / kTile * strip_bytes(scales, columns / kTile);
}

Bytes q8_strips_bytes(std::uint32_t rows, std::uint32_t columns) {
  return (Bytes{rows} + kTile - 1) / kTile * (columns / kTile) * (kVectorBytes + kTileElements);
}

void pack_strips(const View& weights, Range rows, std::byte* out) {
  if (weights.format == Format::q8_0) return pack_q8_strips(weights, rows, out);
  if (weights.format.has_outliers()) return pack_outlier_strips(weights, rows, out);
  const std::uint32_t k = columns(weights), tiles = k / kTile;
  if (in_tile_groups(weights)) {
    VITRO_CHECK(rows.first % kTile == 0, "a part of tile groups begins with a strip");
    const Bytes before = strips_bytes(Scales::of_tile_groups, rows.first, k);
    std::memcpy(out, weights.data() + before, strips_bytes(Scales::of_tile_groups, rows.count, k));
    return;
  }
  FileRows in(weights);
  std::vector<std::uint8_t> q(k), codes(std::size_t{tiles} * kTileElements);
  std::memset(out, 0, strips_bytes(Scales::of_blocks, rows.count, k));
  for (std::uint32_t first = 0; first < rows.count; first += kTile, out += strip_bytes(Scales::of_blocks, tiles)) {
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
