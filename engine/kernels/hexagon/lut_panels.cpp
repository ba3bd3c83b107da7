// Bit-serial panels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/lut_tiling.hpp"
#include "engine/kernels/common/file_rows.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro::hexagon {
namespace {

struct PanelBytes {
  Bytes scales, planes;
  PanelBytes(const PlaneForm& form, std::uint32_t columns)
      : scales(form.scales == Scales::of_rows ? 0 : Bytes{columns} / form.group * kLutPanelRows * kScaleBytes),
        planes(Bytes{columns} * kLutPanelRows * form.bits / 8) {}
  Bytes all() const { return scales + planes; }
};

// Of a panel, before the tiles of its rows: scales of rows, zero points.
Bytes lead_bytes(const PlaneForm& form, std::uint32_t columns) {
  const Bytes zeros = form.zeros == Zeros::of_blocks ? zero_bytes(form.bits, columns / form.group) : 0;
  return kLutPanelRows * ((form.scales == Scales::of_rows ? kScaleBytes : 0) + zeros);
}

// Of a panel, with all of its columns.
Bytes panel_bytes(const PlaneForm& form, std::uint32_t columns) { return lead_bytes(form, columns) + PanelBytes(form, columns).all(); }

// Where a row of a matrix lies.
class Place {
 public:
  Place(const PlaneForm& form, std::uint32_t rows, std::uint32_t columns, std::uint32_t row) : form_(form), columns_(columns) {
    const std::uint32_t first = row / form.tile.rows * form.tile.rows;
    begin_ = first / kLutPanelRows * panel_bytes(form, columns);
    panels_ = (std::min<std::uint32_t>(form.tile.rows, rows - first) + kLutPanelRows - 1) / kLutPanelRows;
    row_ = row - first;
  }
  // Where the part of its panel begins that has the tile's columns from `column` on.
  Bytes panel(std::uint32_t column) const {
    const std::uint32_t width = std::min<std::uint32_t>(form_.tile.columns, columns_ - column);
    const Bytes before = panels_ * (lead_bytes(form_, columns_) + PanelBytes(form_, column).all());
    return begin_ + before + row_ / kLutPanelRows * PanelBytes(form_, width).all();
  }
  Bytes scale() const { return begin_ + row_ * kScaleBytes; }  // of a row that has one
  Bytes zeros(std::uint32_t byte) const {                      // a byte of its string of zero points
    return begin_ + (byte * panels_ + row_ / kLutPanelRows) * kLutPanelRows + lut_byte(row_ % kLutPanelRows);
  }

 private:
  const PlaneForm& form_;
  std::uint32_t columns_, row_;  // row_: within the tiles that have it
  Bytes begin_, panels_;         // of these tiles and what stands before them; of a tile
};

// Codes, scales and zero points of a row of `k` columns.
void row_codes(Format format, const std::byte* row, std::uint32_t k, std::uint8_t* q, std::uint16_t* scales, std::uint8_t* zeros) {
  unpack_codes(format, row, k, q);
  for (std::size_t b = 0; b < k / block_elements(format); ++b, row += block_bytes(format)) {
    std::memcpy(scales + b, row, kScaleBytes);
    zeros[b] = static_cast<std::uint8_t>(block_scale(format, row).zero);
  }
}

}  // namespace

TileShape tile_shape(std::uint32_t bits, std::uint32_t group, std::optional<std::uint32_t> rows) {
  const lut::TilingLimits limits;
  const std::optional<lut::Tiling> found = lut::search_tiling(limits, {bits, group});
  VITRO_CHECK(found, "no tile fits in a V75");
  const std::uint32_t most = rows ? lut::even_rows(limits, *found, *rows) : found->rows;
  return {static_cast<std::uint16_t>(most), static_cast<std::uint16_t>(found->columns)};
}

std::optional<PlaneForm> plane_form(const View& weights) {
  const Format format = weights.format;
  const std::uint32_t k = columns(weights);
  PlaneForm form;
  if (format == Format::q4_0 && can_pack(weights)) {
    form = {4, kBlockColumns, 8, Zeros::same};
  } else if (!has_look_ups(format) || k == 0 || k % format.block != 0 || k > kMostColumns) {
    return {};
  } else if (format.zero_point) {
    form = {format.bits, format.block, 0, Zeros::of_blocks};
  } else if (format.bits == 1) {
    form = {1, format.block, 0, Zeros::signs};
  } else {
    form = {format.bits, format.block, 1u << (format.bits - 1), Zeros::same};
  }
  if (format.row_scale) form.scales = Scales::of_rows;
  form.tile = tile_shape(form.bits, form.group, weights.shape[0]);
  return form;
}

Bytes lut_panels_bytes(const PlaneForm& form, std::uint32_t rows, std::uint32_t columns) {
  return (Bytes{rows} + kLutPanelRows - 1) / kLutPanelRows * panel_bytes(form, columns);
}

std::uint32_t lut_byte(std::uint32_t row) {
  // A pair of halfword results widens into four vectors: rows 0..31 from the even bytes' even halfwords, and so on.
  constexpr std::uint32_t kOffset[4] = {0, 2, 1, 3};
  return 4 * (row % 32) + kOffset[row / 32];
}

void pack_lut_panels(const PlaneForm& form, std::uint32_t rows, std::uint32_t columns, const std::uint8_t* q, const std::uint16_t* scales,
                     const std::uint8_t* zeros, std::byte* out) {
  const std::uint32_t blocks = columns / form.group, zero_bits = zero_field_bits(form.bits);
  std::memset(out, 0, lut_panels_bytes(form, rows, columns));
  for (std::uint32_t r = 0; r < rows; ++r) {
    const std::uint32_t lane = r % kLutPanelRows;
    const Place place(form, rows, columns, r);
    if (form.scales == Scales::of_rows) std::memcpy(out + place.scale(), scales + std::size_t{r} * blocks, kScaleBytes);
    for (std::uint32_t b = 0; form.zeros == Zeros::of_blocks && b < blocks; ++b) {
      out[place.zeros(b * zero_bits / 8)] |= static_cast<std::byte>(zeros[std::size_t{r} * blocks + b] << b * zero_bits % 8);
    }
    for (std::uint32_t c = 0; c < columns; c += form.tile.columns) {
      const std::uint32_t width = std::min<std::uint32_t>(form.tile.columns, columns - c);
      const PanelBytes size(form, width);
      std::byte* panel = out + place.panel(c);
      for (std::uint32_t b = 0; b < width / form.group; ++b) {
        const std::size_t block = std::size_t{r} * blocks + c / form.group + b;
        if (size.scales > 0) std::memcpy(panel + (b * kLutPanelRows + lane) * kScaleBytes, scales + block, kScaleBytes);
      }
      std::byte* planes = panel + size.scales + lut_byte(lane);
      for (std::uint32_t j = 0; j < width; ++j) {
        const std::uint32_t value = q[std::size_t{r} * columns + c + j], pair = j / 8, bit = j % 8;
        for (std::uint32_t i = 0; i < form.bits; ++i) {
          planes[(pair * form.bits + i) * kLutPanelRows] |= static_cast<std::byte>((value >> i & 1) << bit);
        }
      }
    }
  }
}

void pack_lut_panels(const View& weights, Range rows, std::byte* out) {
  const std::optional<PlaneForm> form = plane_form(weights);
  VITRO_CHECK(form, "a matrix that has no bit planes");
  const std::uint32_t k = columns(weights), blocks = k / form->group, tile = form->tile.rows;
  std::vector<std::uint8_t> q(std::size_t{tile} * k), zeros(std::size_t{tile} * blocks);
  std::vector<std::uint16_t> scales(std::size_t{tile} * blocks);
  FileRows in(weights);
  for (std::uint32_t first = 0; first < rows.count; first += tile, out += lut_panels_bytes(*form, tile, k)) {
    const std::uint32_t count = std::min(tile, rows.count - first);
    for (std::uint32_t r = 0; r < count; ++r) {
      const std::size_t block = std::size_t{r} * blocks;
      row_codes(weights.format, in[rows.first + first + r], k, &q[std::size_t{r} * k], &scales[block], &zeros[block]);
    }
    pack_lut_panels(*form, count, k, q.data(), scales.data(), zeros.data(), out);
  }
}

}  // namespace vitro::hexagon
