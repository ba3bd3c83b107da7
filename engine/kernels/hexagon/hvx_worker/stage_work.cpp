#include "engine/kernels/hexagon/hvx_worker/stage_work.hpp"

#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/lut_tile.hpp"
#include "engine/kernels/hexagon/hvx_worker/matrix_unit.hpp"
#include "engine/kernels/hexagon/scaled_tables.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kStrips = kLutPanelRows / kTile;  // of a panel
HmxModel hmx[kStrips];                               // keep their sums from one part of a depth to the next

const uint16_t* halves_at(const unsigned char* p) { return reinterpret_cast<const uint16_t*>(p); }
uint16_t* halves_at(unsigned char* p) { return reinterpret_cast<uint16_t*>(p); }

// Tiles of a layout in a step's depth: whole ones, and what is left at a matrix's end.
uint32_t layout_tiles(const Operator& op, const Step& step) {
  uint32_t count = 0;
  for (uint32_t c = 0; c < step.depth; c += op.tile.columns) ++count;
  return count;
}

const uint32_t* places_of(const StagePass& pass, const Step& step) {
  return reinterpret_cast<const uint32_t*>(pass.operand(3)) + step.column;
}

// Rows of fp16 wherever they lie become strips: 64 columns of each after the other.
void gather_strips(const StagePass& pass, const Step& step, unsigned char* to, Chain& chain) {
  const uint32_t* places = places_of(pass, step);
  const uint32_t pairs = tile_pairs(step.depth), strip = strip_bytes(*pass.op, step.depth);
  for (uint32_t row = 0; row < step.columns; ++row) {
    const unsigned char* from = pass.operand(0) + places[row] * kPlaceBytes + step.begin * 2;
    unsigned char* first = to + row / kTile * strip + row % kTile * kVectorBytes;
    chain.add({from, first, kVectorBytes, pairs, kVectorBytes, kTile * kVectorBytes});
  }
}

void load_strips(const StagePass& pass, const Step& step, unsigned char* to, Chain& chain) {
  const Operator& op = *pass.op;
  if (op.kind == Kind::matmul_hmx_f16_rows) return gather_strips(pass, step, to, chain);
  if (of_block_rows(op.kind)) return gather_rows(pass, step, to, chain);
  const uint32_t strips = units_of(op, step.columns), pitch = strip_bytes(op, op.columns), placed = strip_bytes(op, step.depth);
  const unsigned char* from = pass.operand(0) + step.column / kTile * pitch;
  if (step.depth == op.columns) return chain.add(run_of(from, to, strips * pitch));
  const uint32_t scales = strip_scales(op, step.depth) * kVectorBytes, values = strip_values(op, step.depth);
  const uint32_t before = has_outliers(op) ? 0 : strip_scales(op, step.begin) * kVectorBytes;
  if (scales > 0) chain.add({from + before, to, scales, strips, pitch, placed});
  from += strip_scales(op, op.columns) * kVectorBytes + strip_values(op, step.begin);
  chain.add({from, to + scales, values, strips, pitch, placed});
}

// A panel as it would stand in a tile of its own: what belongs to its rows, then its columns. Whole tiles of the layout are a 2D block.
void load_panel(const StagePass& pass, const Step& step, uint32_t first, unsigned char* to, Chain& chain) {
  const Operator& op = *pass.op;
  uint32_t row = 0;
  while (first - row >= op.tile.rows) row += op.tile.rows;
  const LutTile tile(op, row, step.begin);
  const uint32_t p = (first - row) / kLutPanelRows, zeros = lut_zeros(op) / kLutPanelRows;
  const unsigned char* weights = pass.operand(0);
  if (op.scales == Scales::of_rows) {
    chain.add(run_of(weights + tile.first + p * lut_row_scales(op), to, lut_row_scales(op)));
    to += lut_row_scales(op);
  }
  if (zeros > 0) {
    chain.add({weights + tile.first + p * kLutPanelRows, to, kLutPanelRows, zeros, tile.panels * kLutPanelRows, kLutPanelRows});
    to += zeros * kLutPanelRows;
  }
  uint32_t whole = 0;
  for (uint32_t c = 0; c + op.tile.columns <= step.depth; c += op.tile.columns) ++whole;
  const uint32_t bytes = tile.size.bytes();
  if (whole > 0) {
    chain.add({weights + tile.begin + p * bytes, to, bytes, whole, tile.panels * bytes, bytes});
    to += whole * bytes;
  }
  const uint32_t taken = whole * op.tile.columns;
  if (taken == step.depth) return;
  const LutTile rest(op, row, step.begin + taken);
  chain.add(run_of(weights + rest.begin + p * rest.size.bytes(), to, rest.size.bytes()));
}

// Tiles of a strip's blocks.
void widen(const StagePass& pass, const unsigned char* scales, const unsigned char* values, uint32_t tiles, uint16_t* out) {
  if (of_bytes(pass.op->kind)) return float_dequantise_bytes(values, halves_at(scales), tiles, out);
  hvx_values(values, halves_at(pass.operand(2)), tiles * (kTileElements / 2 / kVectorBytes), out);
  float_scale(out, halves_at(scales), kTilePairs, tiles * kTilePairs);
}

// Tiles [piece, end) of a step, whose rows have one scale, then the outliers in them.
void outlier_tiles(const StagePass& pass, const Step& step, const unsigned char* strip, uint32_t piece, uint32_t end,
                   unsigned char* tiles) {
  const Operator& op = *pass.op;
  const uint32_t vectors = (end - piece) * kTilePairs, first = step.begin / kTile;
  const unsigned char* nibbles = strip + strip_scales(op, step.depth) * kVectorBytes + strip_values(op, piece * kTile);
  uint16_t* out = halves_at(tiles) + piece * kTileElements;
  hvx_values(nibbles, halves_at(pass.operand(2)), vectors / 4, out);
  float_scale(out, halves_at(strip + OutlierStrip{op.columns}.scales()), vectors, vectors);
  float_place_outliers(strip, op.columns, first + piece, first + end, out);
}

void strip_tiles(const StagePass& pass, const Step& step, const unsigned char* strip, uint32_t piece, uint32_t end, unsigned char* made,
                 unsigned char* tiles) {
  const Operator& op = *pass.op;
  if (is_f16_product(op.kind)) {
    return hvx_f16_tiles(strip + piece * kTile * kVectorBytes, end - piece, halves_at(tiles) + piece * 2 * kTileElements);
  }
  if (of_block_rows(op.kind)) {
    for (; piece < end; ++piece) {
      const uint32_t first = piece * piece_tiles(op);
      widen(pass, made, made + piece_scales(op), make_piece(op, step.depth, strip, piece, made), halves_at(tiles) + first * kTileElements);
    }
    return;
  }
  if (has_outliers(op)) return outlier_tiles(pass, step, strip, piece, end, tiles);
  const unsigned char *scales = strip + piece * kVectorBytes, *values = strip + strip_scales(op, step.depth) * kVectorBytes;
  if (!tile_groups(op)) {
    return widen(pass, scales, values + piece * strip_values(op, kTile), end - piece, halves_at(tiles) + piece * kTileElements);
  }
  constexpr uint32_t kVectors = kTileElements / kVectorBytes;  // of nibbles, of a pair of tiles
  float_dequantise_tiles(values + piece * kVectors * kVectorBytes, halves_at(scales), halves_at(pass.operand(2)), (end - piece) * kVectors,
                         halves_at(tiles) + piece * 2 * kTileElements);
}

// Tile `index` of the layout within the step's depth, of a panel as load_panel() placed it.
void panel_tile(const StagePass& pass, const Step& step, const unsigned char* panel, uint32_t index, unsigned char* tiles) {
  const Operator& op = *pass.op;
  const uint32_t c = index * op.tile.columns, columns = step.depth - c < op.tile.columns ? step.depth - c : op.tile.columns;
  const uint16_t* tables = halves_at(pass.operand(2));
  const unsigned char* part = panel + lut_row_scales(op) + lut_zeros(op) + LutPanel(op, c).bytes();
  const unsigned char* planes = part + LutPanel(op, columns).scales;
  tiles += c * kLutPanelRows * element_bytes(op);
  if (op.kind == Kind::matmul_hmx_int8) {
    return hvx_int8_tiles(planes, tables, op.bits, columns / 8, columns / kTile, reinterpret_cast<int8_t*>(tiles));
  }
  const ZeroFields zeros{panel + lut_row_scales(op), 1, lut_blocks(op.group, step.begin + c), zero_field_bits(op.bits)};
  const uint16_t* scales = halves_at(op.scales == Scales::of_rows ? panel : part);
  const auto make = op.kind == Kind::matmul_hmx_scaled ? float_scaled_tiles : float_lut_tiles;
  make(planes, zeros, scales, scale_step(op), tables, op.bits, op.group, op.zeros, lut_blocks(op.group, columns), halves_at(tiles));
}

// The accumulator's rows of fp16, widened.
void write_halves(const HmxModel& sums, uint32_t rows, uint32_t columns, float* y, uint32_t pitch) {
  uint16_t out[kTileElements];
  sums.store(out);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t c = 0; c < columns; ++c) y[i * pitch + c] = half_value(out[tile_place(i, c)]);
  }
}

// The same of a result that is turned: the accumulator's rows are strip `strip` of a panel, of which the matrix has `columns`.
void write_turned(const HmxModel& sums, uint32_t strip, uint32_t rows, uint32_t columns, float* y, uint32_t pitch) {
  uint16_t out[kTileElements];
  sums.store(out);
  for (uint32_t r = 0; r < kTile; ++r) {
    const uint32_t at = scaled_row(strip, r);
    for (uint32_t i = 0; at < columns && i < rows; ++i) y[i * pitch + at] = half_value(out[tile_place(r, i)]);
  }
}

// Rows of weights have one scale, so do rows of activations: all of a product is one sum of integers.
void write_scaled(const HmxModel& unit, const uint16_t* scales, const float* x_scales, uint32_t rows, uint32_t columns, float* y,
                  uint32_t pitch) {
  int32_t sums[kTileElements];
  unit.store_sums(sums);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t c = 0; c < columns; ++c) {
      y[i * pitch + c] = __builtin_fmaf(static_cast<float>(sums[i * kTile + c]), half_value(scales[c]) * x_scales[i], 0.0f);
    }
  }
}

// 32 rows of activations with the strip `s` of a unit of columns. x: the first tile of the rows; the step's tiles are `tiles`.
template <class Element>
void multiply_strip(const StagePass& pass, const Step& step, HmxModel& unit, uint32_t s, const Element* x, const Element* tiles) {
  const Operator& op = *pass.op;
  const bool panel = is_panel_product(op.kind);
  const uint32_t most = panel ? op.tile.columns / kTile : kMostTiles, strips = panel ? kStrips : 1;
  const uint32_t all = step.depth / kTile;
  for (uint32_t t = 0; t < all; t += most) {
    const uint32_t count = all - t < most ? all - t : most;
    const Element *of_x = x + t * kTileElements, *of_w = tiles + (t * strips + s * (panel ? count : 0)) * kTileElements;
    const bool turned = op.kind == Kind::matmul_hmx_scaled;
    multiply_on(unit, turned ? of_w : of_x, turned ? of_x : of_w, count);
  }
}

}  // namespace

void gather_rows(const StagePass& pass, const Step& step, unsigned char* to, Chain& chain) {
  const Operator& op = *pass.op;
  const bool apart = scales_apart(op);
  const uint32_t* places = places_of(pass, step);
  const uint32_t bytes = apart ? nibble_bytes(step.depth) : row_bytes_to(op, step.depth), pitch = row_pitch(op, step.depth);
  const uint32_t begin = apart ? nibble_bytes(step.begin) : row_bytes_to(op, step.begin);
  for (uint32_t row = 0, rows; row < step.columns; row += rows) {
    rows = series(places + row, step.columns - row);
    const uint32_t distance = rows > 1 ? (places[row + 1] - places[row]) * kPlaceBytes : 0;
    chain.add({pass.operand(0) + places[row] * kPlaceBytes + begin, to + row * pitch, bytes, rows, distance, pitch});
  }
  if (!apart) return;
  const uint32_t of_row = apart_scale_bytes(op.columns);
  const unsigned char* scales = pass.operand(3) + scales_behind(op.rows) + step.column * of_row + apart_scale_bytes(step.begin);
  chain.add({scales, to + bytes, apart_scale_bytes(step.depth), step.columns, of_row, pitch});
}

void load_weights(const StagePass& pass, const Step& step, unsigned char* to, Chain& chain) {
  const Operator& op = *pass.op;
  if (is_strip_product(op.kind)) return load_strips(pass, step, to, chain);
  for (uint32_t c = 0; c < step.columns; c += kLutPanelRows, to += unit_weights(op, step.depth)) {
    load_panel(pass, step, step.column + c, to, chain);
  }
}

uint32_t make_piece(const Operator& op, uint32_t depth, const unsigned char* rows, uint32_t piece, unsigned char* made) {
  const uint32_t first = piece * piece_tiles(op), left = depth / kTile - first, pitch = row_pitch(op, depth);
  unsigned char* values = made + piece_scales(op);
  if (scales_apart(op)) {
    const unsigned char* scales = rows + nibble_bytes(depth) + apart_scale_bytes(first * kTile);
    hvx_nibble_rows(rows + nibble_bytes(first * kTile), scales, pitch, made, values);
  } else {
    (of_bytes(op.kind) ? hvx_q8_rows : hvx_q4_rows)(rows + row_bytes_to(op, first * kTile), pitch, made, values);
  }
  return left < piece_tiles(op) ? left : piece_tiles(op);
}

uint32_t pieces_of(const StagePass& pass, const Step& step) {
  const Operator& op = *pass.op;
  return units_of(op, step.columns) * (is_strip_product(op.kind) ? strip_pieces(op, step.depth) : layout_tiles(op, step));
}

// Pieces go through the units one after the other: what of [piece, end) falls into each.
void make_tiles(const StagePass& pass, const Step& step, const unsigned char* weights, uint32_t piece, uint32_t end, unsigned char* made,
                unsigned char* tiles) {
  const Operator& op = *pass.op;
  const bool strips = is_strip_product(op.kind);
  const uint32_t of_unit = strips ? strip_pieces(op, step.depth) : layout_tiles(op, step);
  for (uint32_t first = 0; first < end; first += of_unit) {
    const uint32_t from = piece > first ? piece - first : 0, to = end - first < of_unit ? end - first : of_unit;
    if (strips && from < to) strip_tiles(pass, step, weights, from, to, made, tiles);
    for (uint32_t i = from; !strips && i < to; ++i) panel_tile(pass, step, weights, i, tiles);
    weights += unit_weights(op, step.depth);
    tiles += unit_tiles(op, step.depth);
  }
}

// A unit of weights meets all rows of the pass, 32 at a time.
extern "C" [[gnu::noinline]] void hmx_multiply(const StagePass* pass, const Step* step, const unsigned char* activations,
                                               const unsigned char* tiles, float* y, uint32_t pitch, volatile uint32_t* progress) {
  const Operator& op = *pass->op;
  const bool bytes = op.kind == Kind::matmul_hmx_int8, turned = op.kind == Kind::matmul_hmx_scaled;
  const uint32_t unit = unit_columns(op), strips = unit / kTile, of_tile = kTileElements * element_bytes(op);
  const auto* x_scales = reinterpret_cast<const float*>(pass->operand(2) + 2 * kVectorBytes) + pass->row;
  for (uint32_t c = 0; c < step->columns; c += unit, tiles += unit_tiles(op, step->depth)) {
    for (uint32_t m = 0; m < pass->rows; m += kTile) {
      const uint32_t rows = pass->rows - m < kTile ? pass->rows - m : kTile;
      const unsigned char* x = activations + (m / kTile * (op.columns / kTile) + step->begin / kTile) * of_tile;
      for (uint32_t s = 0; s < strips && (turned || c + s * kTile < step->columns); ++s) {
        const uint32_t column = turned ? c : c + s * kTile, left = step->columns - column, columns = left < kTile ? left : kTile;
        if (step->first && turned) hmx[s].clear(kTile, rows);
        if (step->first && !turned) hmx[s].clear(rows);
        if (bytes) {
          multiply_strip(*pass, *step, hmx[s], s, reinterpret_cast<const int8_t*>(x), reinterpret_cast<const int8_t*>(tiles));
        } else {
          multiply_strip(*pass, *step, hmx[s], s, halves_at(x), halves_at(tiles));
        }
        float* out = y + m * pitch + column;
        if (step->last && bytes) {
          const uint32_t at = step->column + column;  // of the matrix: its panels' scales stand in the weights
          const LutTile tile(op, row_of_tile(op, at), 0);
          const uint16_t* scales = tile.scales(pass->operand(0), op, (at - tile.row) / kLutPanelRows) + at % kLutPanelRows;
          write_scaled(hmx[s], scales, x_scales + m, rows, columns, out, pitch);
        } else if (step->last && turned) {
          write_turned(hmx[s], s, rows, left, out, pitch);
        } else if (step->last) {
          write_halves(hmx[s], rows, columns, out, pitch);
        }
        advance(*progress);
      }
    }
  }
}

void multiply_tiles(const StagePass& pass, const Step& step, const unsigned char* activations, const unsigned char* tiles, float* y,
                    uint32_t pitch, volatile uint32_t& progress) {
  hmx_multiply(&pass, &step, activations, tiles, y, pitch, &progress);
}

}  // namespace vitro::hexagon
