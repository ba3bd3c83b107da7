#include "engine/kernels/hexagon/panels.hpp"

#include <cstring>
#include <vector>

namespace vitro::hexagon {
namespace {

constexpr std::uint32_t kMostColumns = 32768;  // of the worker's scratch
constexpr std::uint32_t kScaleBytes = 2, kUnitBytes = 4;

std::uint32_t panels_of(std::uint32_t rows, std::uint32_t panel) { return (rows + panel - 1) / panel; }
Bytes scales_bytes(std::uint32_t columns) { return round_up(Bytes{columns} / kBlockColumns * kPanelRows * kScaleBytes, kVectorBytes); }

// Blocks of a matrix of q8_0 or q4_0, whatever its layout: a scale and units of four bytes.
class Blocks {
 public:
  explicit Blocks(const View& view)
      : data_(view.data()),
        tiled_(view.layout == Layout::tiled),
        block_(block_bytes(view.format)),
        row_(row_bytes(view.format, columns(view))) {}

  std::uint32_t units() const { return static_cast<std::uint32_t>((block_ - kScaleBytes) / kUnitBytes); }
  const std::byte* scale(std::uint32_t row, std::uint32_t b) const {
    return tiled_ ? tile(row, b) + kScaleBytes * (row % kTileRows) : data_ + row * row_ + b * block_;
  }
  const std::byte* unit(std::uint32_t row, std::uint32_t b, std::uint32_t j) const {
    if (!tiled_) return data_ + row * row_ + b * block_ + kScaleBytes + j * kUnitBytes;
    return tile(row, b) + kTileRows * kScaleBytes + (j * kTileRows + row % kTileRows) * kUnitBytes;
  }

 private:
  const std::byte* tile(std::uint32_t row, std::uint32_t b) const {
    return data_ + row / kTileRows * (kTileRows * row_) + b * (kTileRows * block_);
  }

  const std::byte* data_;
  bool tiled_;
  Bytes block_, row_;
};

}  // namespace

bool can_pack(const View& weights) {
  const std::uint32_t k = columns(weights);
  return (weights.format == Format::q8_0 || weights.format == Format::q4_0) && k % kBlockColumns == 0 && k > 0 && k <= kMostColumns;
}

bool can_pack_lut(const View& weights) { return weights.format == Format::q4_0 && can_pack(weights); }

Bytes panels_bytes(Format format, std::uint32_t rows, std::uint32_t columns) {
  const Bytes quants = Bytes{columns} * kPanelRows / (format == Format::q4_0 ? 2 : 1);
  return panels_of(rows, kPanelRows) * (scales_bytes(columns) + quants);
}

Bytes lut_panels_bytes(std::uint32_t bits, std::uint32_t rows, std::uint32_t columns) {
  const Bytes scales = Bytes{columns} / kBlockColumns * kLutPanelRows * kScaleBytes;
  return panels_of(rows, kLutPanelRows) * (scales + Bytes{columns} * kLutPanelRows * bits / 8);
}

void pack_panels(const View& weights, Range rows, std::byte* out) {
  VITRO_CHECK(can_pack(weights), "a matrix that has no panels");
  const Blocks in(weights);
  const std::uint32_t k = columns(weights), blocks = k / kBlockColumns, units = in.units();
  const Bytes panel_bytes = panels_bytes(weights.format, 1, k);
  std::memset(out, 0, panels_bytes(weights.format, rows.count, k));
  for (std::uint32_t r = 0; r < rows.count; ++r) {
    std::byte* panel = out + r / kPanelRows * panel_bytes;
    const std::uint32_t lane = r % kPanelRows, row = rows.first + r;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      std::memcpy(panel + (b * kPanelRows + lane) * kScaleBytes, in.scale(row, b), kScaleBytes);
      std::byte* quants = panel + scales_bytes(k) + lane * kUnitBytes;
      for (std::uint32_t j = 0; j < units; ++j) {
        std::memcpy(quants + (b * units + j) * (kPanelRows * kUnitBytes), in.unit(row, b, j), kUnitBytes);
      }
    }
  }
}

std::uint32_t lut_byte(std::uint32_t row) {
  // A pair of halfword results widens into four vectors: rows 0..31 from the even bytes' even halfwords, and so on.
  constexpr std::uint32_t kOffset[4] = {0, 2, 1, 3};
  return 4 * (row % 32) + kOffset[row / 32];
}

void pack_lut_panels(std::uint32_t bits, std::uint32_t rows, std::uint32_t columns, const std::uint8_t* q, const std::uint16_t* scales,
                     std::byte* out) {
  const std::uint32_t blocks = columns / kBlockColumns;
  const Bytes panel_bytes = lut_panels_bytes(bits, 1, columns), planes = Bytes{blocks} * kLutPanelRows * kScaleBytes;
  std::memset(out, 0, lut_panels_bytes(bits, rows, columns));
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::byte* panel = out + r / kLutPanelRows * panel_bytes;
    const std::uint32_t lane = r % kLutPanelRows;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      std::memcpy(panel + (b * kLutPanelRows + lane) * kScaleBytes, scales + std::size_t{r} * blocks + b, kScaleBytes);
    }
    for (std::uint32_t c = 0; c < columns; ++c) {
      const std::uint32_t value = q[std::size_t{r} * columns + c], pair = c / 8, bit = c % 8;
      for (std::uint32_t i = 0; i < bits; ++i) {
        std::byte& byte = panel[planes + (pair * bits + i) * kLutPanelRows + lut_byte(lane)];
        byte |= static_cast<std::byte>((value >> i & 1) << bit);
      }
    }
  }
}

void pack_lut_panels(const View& weights, Range rows, std::byte* out) {
  VITRO_CHECK(can_pack_lut(weights), "a matrix that has no bit planes");
  const Blocks in(weights);
  const std::uint32_t k = columns(weights), blocks = k / kBlockColumns;
  const Bytes panel_bytes = lut_panels_bytes(4, 1, k);
  std::vector<std::uint8_t> q(std::size_t{kLutPanelRows} * k);
  std::vector<std::uint16_t> scales(std::size_t{kLutPanelRows} * blocks);
  for (std::uint32_t first = 0; first < rows.count; first += kLutPanelRows, out += panel_bytes) {
    const std::uint32_t count = std::min(kLutPanelRows, rows.count - first);
    for (std::uint32_t r = 0; r < count; ++r) {
      for (std::uint32_t b = 0; b < blocks; ++b) {
        const std::uint32_t row = rows.first + first + r;
        std::memcpy(&scales[std::size_t{r} * blocks + b], in.scale(row, b), kScaleBytes);
        std::uint8_t* to = &q[std::size_t{r} * k + b * kBlockColumns];
        for (std::uint32_t c = 0; c < 16; ++c) {
          const auto both = std::to_integer<std::uint8_t>(in.unit(row, b, c / 4)[c % 4]);
          to[c] = both & 15;
          to[c + 16] = both >> 4;
        }
      }
    }
    pack_lut_panels(4, count, k, q.data(), scales.data(), out);
  }
}

void pack_super_group(const std::uint8_t* q, std::byte* out) {
  std::memset(out, 0, kVectorBytes);
  for (std::uint32_t e = 0; e < 2 * kVectorBytes; ++e) {
    const std::uint32_t vector = e / 64, place = 2 * (e % 64) + vector % 2;
    out[place] |= static_cast<std::byte>(q[e] << 4 * (vector / 2));
  }
}

std::uint32_t super_group_scale(std::uint32_t group) {
  const std::uint32_t super_group = group / 8, g = group % 8;
  return super_group * 8 + g % 4 * 2 + g / 4;
}

std::uint32_t table_place(std::uint32_t table, std::uint32_t entry) { return table / 2 * 32 + 2 * entry + table % 2; }

}  // namespace vitro::hexagon
