#include "engine/kernels/hexagon/hvx_worker/matmul.hpp"

#include "engine/kernels/hexagon/hvx_worker/dma.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/lut_tile.hpp"
#include "engine/kernels/hexagon/hvx_worker/stages.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kMostBlocks = 1024;  // of a row, so that the integer results of a panel fit into scratch

constexpr uint32_t kQ8Bytes = 34, kQ4Bytes = 18;  // of a block in a file: its scale, then quants

// On a phone these are in TCM.
alignas(kVectorBytes) int32_t dots[kMostBlocks * kLutPanelRows];
alignas(kVectorBytes) int32_t weighted[kMostTileRows * (kMostTileColumns / kBlockColumns)];  // of a tile
alignas(kVectorBytes) uint16_t tables[kMostBlocks * kBlockColumns / 4 * 16];

constexpr uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

bool valid_tile(const Operator& op) {
  const uint32_t rows = op.tile.rows, columns = op.tile.columns;
  const bool shape = columns == 32 || columns == 64 || columns == 128 || columns == 256;
  return shape && columns >= op.group && rows > 0 && rows % kLutPanelRows == 0 && rows <= kMostTileRows;
}

constexpr bool in_places(Kind kind) { return kind == Kind::matmul_q8_0_rows || kind == Kind::matmul_q4_0_rows; }

// Rows of q8_0 or q4_0 from wherever they lie to TCM, and there to the panel that they make. Returns the panel; rows behind `rows` are
// whatever TCM held.
const unsigned char* gather_panel(const Operator& op, const Regions& r, uint32_t first, uint32_t rows, uint32_t scales_bytes) {
  const uint32_t bytes = placed_row_bytes(op), blocks = op.columns / kBlockColumns, room = round_up(kPanelRows * bytes, kVectorBytes);
  const auto* places = reinterpret_cast<const uint32_t*>(r.inbound + op.in[2]) + first;
  unsigned char *stored = idle_tcm(), *panel = stored + room;
  for (uint32_t i = 0; i < rows; ++i) {
    const Transfer row = run_of(r.inbound + op.in[0] + places[i] * kPlaceBytes, stored + i * bytes, bytes);
    dma_copy(&row);
  }
  const bool q8 = op.kind == Kind::matmul_q8_0_rows;
  hvx_gather_panel(stored, bytes, blocks, q8 ? kQ8Bytes : kQ4Bytes, room, panel, panel + scales_bytes);
  return panel;
}

void matmul(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const bool q8 = op.kind == Kind::matmul_q8_0 || op.kind == Kind::matmul_q8_0_rows;
  const uint32_t blocks = op.columns / kBlockColumns, scales_bytes = round_up(blocks * kPanelRows * 2, kVectorBytes);
  const uint32_t panel_bytes = scales_bytes + blocks * kPanelRows * (q8 ? 32 : 16);
  const auto* x = reinterpret_cast<const Int8Block*>(r.inbound + op.in[1]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t first = 0; first < op.rows; first += kPanelRows) {
    const uint32_t rows = op.rows - first < kPanelRows ? op.rows - first : kPanelRows;
    const unsigned char* panel = in_places(op.kind) ? gather_panel(op, r, first, rows, scales_bytes)
                                                    : r.inbound + op.in[0] + first / kPanelRows * panel_bytes;
    const auto* scales = reinterpret_cast<const uint16_t*>(panel);
    for (uint32_t m = 0; m < op.batch; m += kBatchTogether) {
      const uint32_t batch = op.batch - m < kBatchTogether ? op.batch - m : kBatchTogether;
      (q8 ? hvx_dots_q8_0 : hvx_dots_q4_0)(panel + scales_bytes, x + m * blocks, blocks, batch, blocks, dots);
      for (uint32_t i = 0; i < batch; ++i) {
        float_accumulate(dots + i * blocks * kPanelRows, scales, kPanelRows, &x[(m + i) * blocks].scale, sizeof(Int8Block) / sizeof(float),
                         blocks, kPanelRows, rows, false, y + (m + i) * op.rows + first);
      }
    }
    advance(progress);
  }
}

// A row passes all sums of the batch before the next one.
void add_rows(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const auto* places = reinterpret_cast<const uint32_t*>(r.inbound + op.in[2]);
  const auto* h = reinterpret_cast<const float*>(r.inbound + op.in[1]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t i = 0; i < op.batch * op.columns; ++i) y[i] = 0;
  for (uint32_t row = 0; row < op.rows; ++row) {
    const unsigned char* weights = r.inbound + op.in[0] + places[row] * kPlaceBytes;
    for (uint32_t b = 0; b < op.batch; ++b) {
      if (h[b * op.rows + row] != 0) float_add_row(weights, op.bits, op.columns, h[b * op.rows + row], y + b * op.columns);
    }
    advance(progress);
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

// Sums of a tile's rows while they wait for more of the depth (T-MAN 4.3's spill buffer). In DRAM they are the result itself, which leaves
// the cache each time.
alignas(kVectorBytes) float ordinary_sums[kMostTileRows];
float* spill_buffer(Spill spill, float* y) {
  if (spill == Spill::dram) return y;
  return spill == Spill::l2 ? ordinary_sums : reinterpret_cast<float*>(idle_tcm());
}
void spill_sums(const Operator& op, float* sums, uint32_t count, Response& response) {
  response.spilled[static_cast<uint32_t>(op.spill)] += count;
  if (op.spill != Spill::dram) return;
  clean_cache(sums, count * sizeof(float));
  invalidate_cache(sums, count * sizeof(float));
}

// Tile by tile: tables of its columns stay in registers for all of its panels, and a spill buffer has the sums of the tiles before, so
// blocks add up in ascending order whatever the tile.
void matmul_lut(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const bool rounded = op.kind == Kind::matmul_lut_rounded, wide = op.kind == Kind::matmul_lut_wide;
  const uint32_t blocks = lut_blocks(op.group, op.columns);
  const int32_t step = op.zeros == Zeros::signs ? 2 : 1, zero = op.zeros == Zeros::signs ? 1 : static_cast<int32_t>(op.zero);
  const int32_t factor = step * ((1 << op.bits) - 1) - (op.zeros == Zeros::of_blocks ? 0 : 2 * zero);
  const unsigned char* quants = r.inbound + op.in[1];
  const uint32_t quant_bytes = op.columns * (wide ? sizeof(int16_t) : sizeof(int8_t));
  const auto* x = reinterpret_cast<const ActivationScale*>(r.inbound + op.in[2]);
  const auto* units = reinterpret_cast<const RoundedScale*>(x);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  const bool all = op.batch * op.columns <= kMostBlocks * kBlockColumns, made = all && holds_tables(op);
  for (uint32_t m = 0; m < op.batch; ++m, quants += quant_bytes, x += blocks, units += blocks, y += op.rows) {
    uint16_t* table = tables + (all ? m * op.columns * 4 : 0);
    auto* bytes = reinterpret_cast<uint8_t*>(table);
    if (!made && rounded) hvx_lut_precompute_rounded(reinterpret_cast<const int8_t*>(quants), units, op.group, blocks, bytes);
    if (!made && wide) hvx_lut_precompute_wide(reinterpret_cast<const int16_t*>(quants), op.columns / 4, table);
    if (!made && !rounded && !wide) hvx_lut_precompute(reinterpret_cast<const int8_t*>(quants), op.columns / 4, table);
    for (uint32_t row = 0; row < op.rows; row += op.tile.rows) {
      const uint32_t rows_left = op.rows - row, tile_rows = rows_left < op.tile.rows ? rows_left : op.tile.rows;
      const bool whole = op.columns <= op.tile.columns;  // nothing waits
      float* const waiting = whole ? y + row : spill_buffer(op.spill, y + row);
      for (uint32_t column = 0; column < op.columns; column += op.tile.columns) {
        const LutTile tile(op, row, column);
        const uint32_t of_tile = lut_blocks(op.group, tile.columns), before = lut_blocks(op.group, column), count = tile.columns / 16;
        const unsigned char *matrix = r.inbound + op.in[0], *planes = tile.panel(matrix, 0) + tile.size.scales;
        if (rounded) {
          hvx_lut_linear_rounded(planes, tile.size.bytes(), tile.panels, bytes + column * 8, count, op.bits, op.group, weighted);
        } else {
          const auto linear = wide ? hvx_lut_linear_wide : hvx_lut_linear;
          linear(planes, tile.size.bytes(), tile.panels, table + column * 4, count, op.bits, op.group, weighted);
        }
        for (uint32_t p = 0; p < tile.panels; ++p) {
          const ZeroFields zeros = tile.zeros(matrix, op, p);
          const uint16_t* scales = tile.scales(matrix, op, p);
          const int32_t* sums = weighted + p * of_tile * kLutPanelRows;
          float* out = waiting + p * kLutPanelRows;
          if (rounded) {
            float_accumulate_rounded(sums, scales, scale_step(op), zeros, op.zeros, units + before, factor, of_tile, tile.rows_of(p),
                                     column > 0, out);
          } else {
            (wide ? hvx_lut_finalize_wide : hvx_lut_finalize)(sums, zeros, op.zeros, x + before, factor, of_tile, dots);
            float_accumulate(dots, scales, scale_step(op), &x[before].scale, sizeof(ActivationScale) / sizeof(float), of_tile,
                             kLutPanelRows, tile.rows_of(p), column > 0, out);
          }
          advance(progress);
        }
        if (column + op.tile.columns < op.columns) spill_sums(op, waiting, tile_rows, r.response());
      }
      const Transfer results = run_of(reinterpret_cast<const unsigned char*>(waiting), reinterpret_cast<unsigned char*>(y + row),
                                      tile_rows * static_cast<uint32_t>(sizeof(float)));
      if (waiting != y + row) dma_copy(&results);
    }
  }
  precomputed = {all ? op.kind : Kind::none, op.in[1], op.columns, op.batch};
}

bool looks_up(Kind kind) {
  return kind == Kind::matmul_lut || kind == Kind::matmul_lut_rounded || kind == Kind::matmul_lut_wide;
}

}  // namespace

bool is_product(Kind kind) {
  const bool panels = kind == Kind::matmul_q8_0 || kind == Kind::matmul_q4_0 || in_places(kind);
  return panels || kind == Kind::add_rows || looks_up(kind) || is_staged(kind);
}

uint32_t placed_row_bytes(const Operator& op) {
  const bool adds = op.kind == Kind::add_rows;
  if (op.kind == Kind::matmul_hmx_f16_rows || (adds && op.bits == 16)) return op.columns * 2;
  if (op.kind == Kind::matmul_q8_0_rows || (adds && op.bits == 8)) return op.columns / kBlockColumns * kQ8Bytes;
  if (op.kind == Kind::matmul_q4_0_rows || (adds && op.bits == 4)) return op.columns / kBlockColumns * kQ4Bytes;
  return 0;
}

bool product_sizes(const Operator& op, uint64_t (&in)[3], uint64_t& out) {
  const uint64_t rows = op.rows, columns = op.columns, blocks = columns / kBlockColumns;
  if (columns == 0 || columns % kBlockColumns != 0 || blocks > kMostBlocks || op.batch == 0 || op.batch > 4096) return false;
  out = op.batch * rows * sizeof(float);
  const uint64_t tiles = (op.batch + kTile - 1) / kTile * uint64_t{kTile} * columns * 2;  // of activations
  switch (op.kind) {
    case Kind::matmul_lut:
    case Kind::matmul_lut_rounded:
    case Kind::matmul_lut_wide:
    case Kind::matmul_hmx_lut:
    case Kind::matmul_hmx_scaled:
    case Kind::matmul_hmx_int8: {
      const bool group = op.group == 32 || op.group == 64 || op.group == 128;
      if (!group || (columns & (op.group - 1)) != 0 || op.bits < 1 || op.bits > 4 || op.zero > 15) return false;
      if (op.scales != Scales::of_blocks && (op.scales != Scales::of_rows || op.zeros == Zeros::of_blocks)) return false;
      if (op.zeros > Zeros::signs || (op.zeros == Zeros::signs && op.bits != 1) || !valid_tile(op)) return false;
      if (op.spill > Spill::dram) return false;
      const bool planes = looks_up(op.kind), bytes = op.kind == Kind::matmul_hmx_int8;
      const uint64_t scale = op.kind == Kind::matmul_lut_rounded ? sizeof(RoundedScale) : sizeof(ActivationScale);
      in[0] = (rows + kLutPanelRows - 1) / kLutPanelRows * lut_bytes_to(op, op.columns);
      in[1] = planes ? op.batch * columns * (op.kind == Kind::matmul_lut_wide ? 2 : 1) : bytes ? tiles / 2 : tiles;
      in[2] = planes ? op.batch * lut_blocks(op.group, op.columns) * scale : 2 * kVectorBytes + (bytes ? op.batch * sizeof(float) : 0);
      return planes || valid_stages(op);
    }
    case Kind::add_rows:
      in[1] = op.batch * rows * sizeof(float);
      in[2] = rows * sizeof(uint32_t);
      out = op.batch * columns * sizeof(float);
      return op.bits == 16 || op.bits == 8 || op.bits == 4;
    case Kind::matmul_q8_0_rows:
    case Kind::matmul_q4_0_rows:
      in[1] = op.batch * blocks * sizeof(Int8Block);
      in[2] = rows * sizeof(uint32_t);
      return placed_row_bytes(op) % 4 == 0;
    case Kind::matmul_hmx_f16_rows:
      in[1] = tiles;
      in[2] = rows * sizeof(uint32_t);
      return (columns & (2 * kTile - 1)) == 0 && valid_stages(op);
    case Kind::matmul_hmx:
    case Kind::matmul_hmx_q8:
    case Kind::matmul_hmx_f16:
      if (op.scales > Scales::of_tile_groups || (tile_groups(op) && (columns & (2 * kTile - 1)) != 0)) return false;
      in[0] = (rows + kTile - 1) / kTile * strip_bytes(op, op.columns);
      in[1] = tiles;
      in[2] = op.kind == Kind::matmul_hmx ? kVectorBytes : 0;
      return valid_stages(op);
    default: {
      const uint64_t scales = round_up(static_cast<uint32_t>(blocks * kPanelRows * 2), kVectorBytes);
      in[0] = (rows + kPanelRows - 1) / kPanelRows * (scales + blocks * kPanelRows * (op.kind == Kind::matmul_q8_0 ? 32 : 16));
      in[1] = op.batch * blocks * sizeof(Int8Block);
      return true;
    }
  }
}

void begin_request() { precomputed.kind = Kind::none; }

void run_product(const Operator& op, uint32_t index, const Regions& regions, volatile uint32_t& progress) {
  if (is_staged(op.kind)) return run_staged(op, index, regions, progress);
  if (looks_up(op.kind)) return matmul_lut(op, regions, progress);
  if (op.kind == Kind::add_rows) return add_rows(op, regions, progress);
  matmul(op, regions, progress);
}

}  // namespace vitro::hexagon
