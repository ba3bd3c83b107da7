// Where the tiles of a bit-serial matrix lie (panels.hpp).
#pragma once
#include "engine/kernels/hexagon/lut_stages.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro::hexagon {

// A tile: rows `row` ..., columns `column` ... of a bit-serial matrix, less at its ends.
struct LutTile {
  uint32_t row, column, panels, columns;
  LutPanel size;         // of a panel's part
  uint32_t first;        // byte of the matrix at which the tiles of these rows begin, or what stands before them
  uint32_t begin, rows;  // within the matrix's bytes; of the matrix in the tile

  LutTile(const Operator& op, uint32_t r, uint32_t c)
      : row(r), column(c), columns(op.columns - c < op.tile.columns ? op.columns - c : op.tile.columns), size(op, columns) {
    rows = op.rows - row < op.tile.rows ? op.rows - row : op.tile.rows;
    panels = (rows + kLutPanelRows - 1) / kLutPanelRows;
    first = row / kLutPanelRows * lut_bytes_to(op, op.columns);
    begin = first + panels * lut_bytes_to(op, column);
  }
  // matrix: its first byte.
  const unsigned char* panel(const unsigned char* matrix, uint32_t p) const { return matrix + begin + p * size.bytes(); }
  const uint16_t* scales(const unsigned char* matrix, const Operator& op, uint32_t p) const {
    const bool of_rows = op.scales == Scales::of_rows;
    return reinterpret_cast<const uint16_t*>(of_rows ? matrix + first + p * kLutPanelRows * 2 : panel(matrix, p));
  }
  ZeroFields zeros(const unsigned char* matrix, const Operator& op, uint32_t p) const {
    return {matrix + first + p * kLutPanelRows, panels, lut_blocks(op.group, column), zero_field_bits(op.bits)};
  }
  uint32_t rows_of(uint32_t p) const { return rows - p * kLutPanelRows < kLutPanelRows ? rows - p * kLutPanelRows : kLutPanelRows; }
};

// The first row of the tile that has this one.
inline uint32_t row_of_tile(const Operator& op, uint32_t row) {
  uint32_t first = 0;
  while (row - first >= op.tile.rows) first += op.tile.rows;
  return first;
}

// Halfwords from the scales of one of a panel's blocks to those of the next.
inline uint32_t scale_step(const Operator& op) { return op.scales == Scales::of_rows ? 0 : kLutPanelRows; }

}  // namespace vitro::hexagon
