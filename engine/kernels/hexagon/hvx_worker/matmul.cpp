#include "engine/kernels/hexagon/hvx_worker/matmul.hpp"

#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kMostBlocks = 1024;  // of a row, so that the integer results of a panel fit into scratch

// On a phone these are in TCM.
alignas(kVectorBytes) int32_t dots[kMostBlocks * kLutPanelRows];
alignas(kVectorBytes) int32_t weighted[kMostTileRows * (kMostTileColumns / kBlockColumns)];  // of a tile
alignas(kVectorBytes) uint16_t tables[kMostBlocks * kBlockColumns / 4 * 16];
alignas(kVectorBytes) uint16_t strip[kMostBlocks * kTileElements];  // weight tiles: of a strip, or of a panel's rows a part at a time
HmxModel hmx[kLutPanelRows / kTile];

constexpr uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

// Blocks of a row. Division by a number that is not known beforehand is no instruction here.
uint32_t lut_blocks(uint32_t group, uint32_t columns) { return columns >> (group == 32 ? 5 : group == 64 ? 6 : 7); }

// Bytes of `columns` columns of a bit-serial panel (panels.hpp): of scales and planes.
struct LutPanel {
  uint32_t scales, planes;
  LutPanel(const Operator& op, uint32_t columns)
      : scales(op.scales == Scales::of_rows ? 0 : lut_blocks(op.group, columns) * kLutPanelRows * 2),
        planes(columns / 8 * op.bits * kLutPanelRows) {}
  uint32_t bytes() const { return scales + planes; }
};

// Of a panel's first `columns` columns, and of the scales or zero points that stand before the tiles of its rows.
uint32_t lut_bytes_to(const Operator& op, uint32_t columns) {
  const uint32_t zeros = op.zeros == Zeros::of_blocks ? zero_bytes(op.bits, lut_blocks(op.group, op.columns)) : 0;
  return kLutPanelRows * ((op.scales == Scales::of_rows ? 2 : 0) + zeros) + LutPanel(op, columns).bytes();
}

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
  const unsigned char* panel(const Regions& r, const Operator& op, uint32_t p) const {
    return r.inbound + op.in[0] + begin + p * size.bytes();
  }
  const uint16_t* scales(const Regions& r, const Operator& op, uint32_t p) const {
    const bool of_rows = op.scales == Scales::of_rows;
    return reinterpret_cast<const uint16_t*>(of_rows ? r.inbound + op.in[0] + first + p * kLutPanelRows * 2 : panel(r, op, p));
  }
  ZeroFields zeros(const Regions& r, const Operator& op, uint32_t p) const {
    return {r.inbound + op.in[0] + first + p * kLutPanelRows, panels, lut_blocks(op.group, column), zero_field_bits(op.bits)};
  }
  uint32_t rows_of(uint32_t p) const { return rows - p * kLutPanelRows < kLutPanelRows ? rows - p * kLutPanelRows : kLutPanelRows; }
};
bool valid_tile(const Operator& op) {
  const uint32_t rows = op.tile.rows, columns = op.tile.columns;
  const bool shape = columns == 32 || columns == 64 || columns == 128 || columns == 256;
  return shape && columns >= op.group && rows > 0 && rows % kLutPanelRows == 0 && rows <= kMostTileRows;
}
// Halfwords from the scales of one of a panel's blocks to those of the next.
uint32_t scale_step(const Operator& op) { return op.scales == Scales::of_rows ? 0 : kLutPanelRows; }
bool tile_groups(const Operator& op) { return op.scales == Scales::of_tile_groups; }
// A strip of tiles (panels.hpp): a vector of scales per tile, or per pair of tiles whose groups are tile groups; then nibbles. Or fp16.
uint32_t tile_pairs(const Operator& op) { return (op.columns / kTile + 1) / 2; }
uint32_t strip_scales(const Operator& op) { return tile_groups(op) ? tile_pairs(op) : op.columns / kTile; }
uint32_t strip_bytes(const Operator& op) {
  if (op.kind == Kind::matmul_hmx_f16) return tile_pairs(op) * kTile * kVectorBytes;
  const uint32_t vectors = strip_scales(op), tiles = tile_groups(op) ? 2 * vectors : vectors;
  return vectors * kVectorBytes + tiles * (kTileElements / 2);
}

void matmul(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const bool q8 = op.kind == Kind::matmul_q8_0;
  const uint32_t blocks = op.columns / kBlockColumns, scales_bytes = round_up(blocks * kPanelRows * 2, kVectorBytes);
  const uint32_t panel_bytes = scales_bytes + blocks * kPanelRows * (q8 ? 32 : 16);
  const auto* x = reinterpret_cast<const Int8Block*>(r.inbound + op.in[1]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t first = 0; first < op.rows; first += kPanelRows) {
    const unsigned char* panel = r.inbound + op.in[0] + first / kPanelRows * panel_bytes;
    const auto* scales = reinterpret_cast<const uint16_t*>(panel);
    const uint32_t rows = op.rows - first < kPanelRows ? op.rows - first : kPanelRows;
    for (uint32_t m = 0; m < op.batch; m += kBatchTogether) {
      const uint32_t batch = op.batch - m < kBatchTogether ? op.batch - m : kBatchTogether;
      (q8 ? hvx_dots_q8_0 : hvx_dots_q4_0)(panel + scales_bytes, x + m * blocks, blocks, batch, blocks, dots);
      for (uint32_t i = 0; i < batch; ++i) {
        float_accumulate(dots + i * blocks * kPanelRows, scales, kPanelRows, &x[(m + i) * blocks].scale, sizeof(Int8Block) / sizeof(float),
                         blocks, kPanelRows, rows, false, y + (m + i) * op.rows + first);
      }
    }
    progress = progress + 1;
  }
}

// Whose tables the scratch holds: products of a request that have the same activations make them once (T-MAN 5).
struct {
  Kind kind = Kind::none;
  uint32_t x, columns, batch;
} precomputed;

bool holds_tables(const Operator& op) {
  return precomputed.kind == op.kind && precomputed.x == op.in[1] && precomputed.columns == op.columns && precomputed.batch == op.batch;
}

// Tile by tile: tables of its columns stay in registers for all of its panels, and y has the sums of the tiles before (T-MAN 4.3's spill
// buffer), so blocks add up in ascending order whatever the tile.
void matmul_lut(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const bool rounded = op.kind == Kind::matmul_lut_rounded;
  const uint32_t blocks = lut_blocks(op.group, op.columns);
  const int32_t step = op.zeros == Zeros::signs ? 2 : 1, zero = op.zeros == Zeros::signs ? 1 : static_cast<int32_t>(op.zero);
  const int32_t factor = step * ((1 << op.bits) - 1) - (op.zeros == Zeros::of_blocks ? 0 : 2 * zero);
  const auto* quants = reinterpret_cast<const int8_t*>(r.inbound + op.in[1]);
  const auto* x = reinterpret_cast<const ActivationScale*>(r.inbound + op.in[2]);
  const auto* units = reinterpret_cast<const RoundedScale*>(x);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  const bool all = op.batch * op.columns <= kMostBlocks * kBlockColumns, made = all && holds_tables(op);
  for (uint32_t m = 0; m < op.batch; ++m, quants += op.columns, x += blocks, units += blocks, y += op.rows) {
    uint16_t* table = tables + (all ? m * op.columns * 4 : 0);
    auto* bytes = reinterpret_cast<uint8_t*>(table);
    if (!made && rounded) hvx_lut_precompute_rounded(quants, units, op.group, blocks, bytes);
    if (!made && !rounded) hvx_lut_precompute(quants, op.columns / 4, table);
    for (uint32_t row = 0; row < op.rows; row += op.tile.rows) {
      for (uint32_t column = 0; column < op.columns; column += op.tile.columns) {
        const LutTile tile(op, row, column);
        const uint32_t of_tile = lut_blocks(op.group, tile.columns), before = lut_blocks(op.group, column), count = tile.columns / 16;
        const unsigned char* planes = tile.panel(r, op, 0) + tile.size.scales;
        if (rounded) {
          hvx_lut_linear_rounded(planes, tile.size.bytes(), tile.panels, bytes + column * 8, count, op.bits, op.group, weighted);
        } else {
          hvx_lut_linear(planes, tile.size.bytes(), tile.panels, table + column * 4, count, op.bits, op.group, weighted);
        }
        for (uint32_t p = 0; p < tile.panels; ++p) {
          const ZeroFields zeros = tile.zeros(r, op, p);
          const uint16_t* scales = tile.scales(r, op, p);
          const int32_t* sums = weighted + p * of_tile * kLutPanelRows;
          float* out = y + row + p * kLutPanelRows;
          if (rounded) {
            float_accumulate_rounded(sums, scales, scale_step(op), zeros, op.zeros, units + before, factor, of_tile, tile.rows_of(p),
                                     column > 0, out);
          } else {
            hvx_lut_finalize(sums, zeros, op.zeros, x + before, factor, of_tile, dots);
            float_accumulate(dots, scales, scale_step(op), &x[before].scale, sizeof(ActivationScale) / sizeof(float), of_tile,
                             kLutPanelRows, tile.rows_of(p), column > 0, out);
          }
          progress = progress + 1;
        }
      }
    }
  }
  precomputed = {all ? op.kind : Kind::none, op.in[1], op.columns, op.batch};
}

// The accumulator's rows of fp16, widened.
void write_tile(const HmxModel& tile, uint32_t rows, uint32_t columns, float* y, uint32_t stride) {
  uint16_t out[kTileElements];
  tile.store(out);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t c = 0; c < columns; ++c) y[i * stride + c] = half_value(out[tile_place(i, c)]);
  }
}

// A strip of weights is made ready once and meets all rows of the batch, 32 at a time.
void matmul_hmx(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const uint32_t tiles = op.columns / kTile, vectors = strip_scales(op), nibbles = strip_bytes(op) / kVectorBytes - vectors;
  const auto* x = reinterpret_cast<const uint16_t*>(r.inbound + op.in[1]);
  const auto* values = reinterpret_cast<const uint16_t*>(r.inbound + op.in[2]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t first = 0; first < op.rows; first += kTile) {
    const unsigned char* begin = r.inbound + op.in[0] + first / kTile * strip_bytes(op);
    const auto* scales = reinterpret_cast<const uint16_t*>(begin);
    const uint32_t columns = op.rows - first < kTile ? op.rows - first : kTile;
    if (op.kind == Kind::matmul_hmx_f16) {
      hvx_f16_tiles(begin, tile_pairs(op), strip);
    } else if (tile_groups(op)) {
      float_dequantise_tiles(begin + vectors * kVectorBytes, scales, values, nibbles, strip);
    } else {
      hvx_values(begin + vectors * kVectorBytes, values, nibbles, strip);
      float_scale(strip, scales, kTilePairs, tiles * kTilePairs);
    }
    for (uint32_t m = 0; m < op.batch; m += kTile) {
      const uint32_t rows = op.batch - m < kTile ? op.batch - m : kTile;
      hmx[0].clear(rows);
      for (uint32_t t = 0; t < tiles; t += kMostTiles) {
        const uint32_t count = tiles - t < kMostTiles ? tiles - t : kMostTiles;
        hmx[0].multiply(x + (m / kTile * tiles + t) * kTileElements, strip + t * kTileElements, count);
        progress = progress + 1;
      }
      write_tile(hmx[0], rows, columns, y + m * op.rows + first, op.rows);
    }
  }
}

// Bit-serial panels against tiles of the matrix unit (T-MAN 4.1: decode's layout, made ready for it). What the scratch holds of a panel is
// made ready once for the whole batch; of deeper matrices, once for each 32 rows of it. ready(a layout's tile, the panel in it, weight
// tiles); write(the panel's scales, strip of it, first row of the batch, rows, columns, y).
template <class Element, class Ready, class Write>
void multiply_panels(const Operator& op, const Regions& r, volatile uint32_t& progress, Ready ready, Write write) {
  constexpr uint32_t kMost = sizeof(strip) / (sizeof(Element) * kLutPanelRows), kStrips = kLutPanelRows / kTile;  // columns; of a panel
  const auto* x = reinterpret_cast<const Element*>(r.inbound + op.in[1]);
  auto* w = reinterpret_cast<Element*>(strip);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  uint32_t row = 0;  // where the tiles of the layout begin that have this panel
  for (uint32_t first = 0; first < op.rows; first += kLutPanelRows) {
    if (first - row >= op.tile.rows) row += op.tile.rows;
    const uint32_t within = (first - row) / kLutPanelRows;
    const uint32_t panel_rows = op.rows - first < kLutPanelRows ? op.rows - first : kLutPanelRows;
    const uint32_t strips = (panel_rows + kTile - 1) / kTile;
    for (uint32_t m = 0; m < op.batch; m += kTile) {
      const uint32_t rows = op.batch - m < kTile ? op.batch - m : kTile;
      for (uint32_t s = 0; s < strips; ++s) hmx[s].clear(rows);
      for (uint32_t column = 0; column < op.columns; column += kMost) {
        const uint32_t end = op.columns - column < kMost ? op.columns : column + kMost;
        Element* to = w;
        for (uint32_t c = column; c < end && (m == 0 || op.columns > kMost); c += op.tile.columns) {
          const LutTile tile(op, row, c);
          ready(tile, within, to);
          to += tile.columns * kLutPanelRows;
          progress = progress + 1;
        }
        for (uint32_t s = 0; s < strips; ++s) {
          const Element* in = w;
          for (uint32_t c = column; c < end; c += op.tile.columns) {
            const uint32_t tiles = (end - c < op.tile.columns ? end - c : op.tile.columns) / kTile;
            hmx[s].multiply(x + (m / kTile * (op.columns / kTile) + c / kTile) * kTileElements, in + s * tiles * kTileElements, tiles);
            in += kStrips * tiles * kTileElements;
          }
          progress = progress + 1;
        }
      }
      for (uint32_t s = 0; s < strips; ++s) {
        const uint32_t columns = panel_rows - s * kTile < kTile ? panel_rows - s * kTile : kTile;
        write(LutTile(op, row, 0).scales(r, op, within), s, m, rows, columns, y + m * op.rows + first + s * kTile);
      }
    }
  }
}

void matmul_hmx_lut(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const auto* values = reinterpret_cast<const uint16_t*>(r.inbound + op.in[2]);
  multiply_panels<uint16_t>(
      op, r, progress,
      [&](const LutTile& tile, uint32_t p, uint16_t* w) {
        float_lut_tiles(tile.panel(r, op, p) + tile.size.scales, tile.zeros(r, op, p), tile.scales(r, op, p), scale_step(op), values,
                        op.bits, op.group, op.zeros, lut_blocks(op.group, tile.columns), w);
      },
      [&](const uint16_t*, uint32_t s, uint32_t, uint32_t rows, uint32_t columns, float* y) {
        write_tile(hmx[s], rows, columns, y, op.rows);
      });
}

// Rows of weights have one scale, so do rows of activations: all of a product is one sum of integers.
void matmul_hmx_int8(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const auto* tables = reinterpret_cast<const uint16_t*>(r.inbound + op.in[2]);
  const auto* x_scales = reinterpret_cast<const float*>(r.inbound + op.in[2] + 2 * kVectorBytes);
  multiply_panels<int8_t>(
      op, r, progress,
      [&](const LutTile& tile, uint32_t p, int8_t* w) {
        hvx_int8_tiles(tile.panel(r, op, p) + tile.size.scales, tables, op.bits, tile.columns / 8, tile.columns / kTile, w);
      },
      [&](const uint16_t* panel_scales, uint32_t s, uint32_t m, uint32_t rows, uint32_t columns, float* y) {
        const uint16_t* scales = panel_scales + s * kTile;
        int32_t sums[kTileElements];
        hmx[s].store_sums(sums);
        for (uint32_t i = 0; i < rows; ++i) {
          for (uint32_t c = 0; c < columns; ++c) {
            y[i * op.rows + c] = __builtin_fmaf(static_cast<float>(sums[i * kTile + c]), half_value(scales[c]) * x_scales[m + i], 0.0f);
          }
        }
      });
}

}  // namespace

bool is_product(Kind kind) {
  return kind == Kind::matmul_q8_0 || kind == Kind::matmul_q4_0 || kind == Kind::matmul_lut || kind == Kind::matmul_hmx ||
         kind == Kind::matmul_hmx_lut || kind == Kind::matmul_lut_rounded || kind == Kind::matmul_hmx_f16 || kind == Kind::matmul_hmx_int8;
}

bool product_sizes(const Operator& op, uint64_t (&in)[3], uint64_t& out) {
  const uint64_t rows = op.rows, columns = op.columns, blocks = columns / kBlockColumns;
  if (columns == 0 || columns % kBlockColumns != 0 || blocks > kMostBlocks || op.batch == 0 || op.batch > 4096) return false;
  out = op.batch * rows * sizeof(float);
  const uint64_t tiles = (op.batch + kTile - 1) / kTile * uint64_t{kTile} * columns * 2;  // of activations
  switch (op.kind) {
    case Kind::matmul_lut:
    case Kind::matmul_lut_rounded:
    case Kind::matmul_hmx_lut:
    case Kind::matmul_hmx_int8: {
      const bool group = op.group == 32 || op.group == 64 || op.group == 128;
      if (!group || (columns & (op.group - 1)) != 0 || op.bits < 1 || op.bits > 4 || op.zero > 15) return false;
      if (op.scales != Scales::of_blocks && (op.scales != Scales::of_rows || op.zeros == Zeros::of_blocks)) return false;
      if (op.zeros > Zeros::signs || (op.zeros == Zeros::signs && op.bits != 1) || !valid_tile(op)) return false;
      const bool planes = op.kind == Kind::matmul_lut || op.kind == Kind::matmul_lut_rounded, bytes = op.kind == Kind::matmul_hmx_int8;
      const uint64_t scale = op.kind == Kind::matmul_lut ? sizeof(ActivationScale) : sizeof(RoundedScale);
      in[0] = (rows + kLutPanelRows - 1) / kLutPanelRows * lut_bytes_to(op, op.columns);
      in[1] = planes ? op.batch * columns : bytes ? tiles / 2 : tiles;
      in[2] = planes ? op.batch * lut_blocks(op.group, op.columns) * scale : 2 * kVectorBytes + (bytes ? op.batch * sizeof(float) : 0);
      return true;
    }
    case Kind::matmul_hmx:
    case Kind::matmul_hmx_f16:
      if (op.scales > Scales::of_tile_groups) return false;
      in[0] = (rows + kTile - 1) / kTile * strip_bytes(op);
      in[1] = tiles;
      in[2] = op.kind == Kind::matmul_hmx ? kVectorBytes : 0;
      return true;
    default: {
      const uint64_t scales = round_up(static_cast<uint32_t>(blocks * kPanelRows * 2), kVectorBytes);
      in[0] = (rows + kPanelRows - 1) / kPanelRows * (scales + blocks * kPanelRows * (op.kind == Kind::matmul_q8_0 ? 32 : 16));
      in[1] = op.batch * blocks * sizeof(Int8Block);
      return true;
    }
  }
}

void begin_request() { precomputed.kind = Kind::none; }

void run_product(const Operator& op, const Regions& regions, volatile uint32_t& progress) {
  if (op.kind == Kind::matmul_lut || op.kind == Kind::matmul_lut_rounded) return matmul_lut(op, regions, progress);
  if (op.kind == Kind::matmul_hmx || op.kind == Kind::matmul_hmx_f16) return matmul_hmx(op, regions, progress);
  if (op.kind == Kind::matmul_hmx_lut) return matmul_hmx_lut(op, regions, progress);
  if (op.kind == Kind::matmul_hmx_int8) return matmul_hmx_int8(op, regions, progress);
  matmul(op, regions, progress);
}

}  // namespace vitro::hexagon
