// What the layouts of a product on the matrix unit (panels.hpp) mean for its stages: the columns that lie together, their bytes as they are
// stored and as tiles, and where a plan's buffers stand in TCM. For host and worker; no divisions, which a Hexagon has no instruction for.
#pragma once
#include "engine/base/block_plan.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/outlier_strips.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

static_assert(kPieceVector == kVectorBytes && kPieceQuants == kTile * kVectorBytes);

constexpr bool is_f16_product(Kind kind) { return kind == Kind::matmul_hmx_f16 || kind == Kind::matmul_hmx_f16_rows; }
// Of blocks, as a file has them, in places: HVX makes strips of them.
constexpr bool of_block_rows(Kind kind) {
  const bool in_fp16 = kind == Kind::matmul_hmx_q8_rows || kind == Kind::matmul_hmx_rows;
  return in_fp16 || kind == Kind::matmul_q8_0_rows || kind == Kind::matmul_q4_0_rows;
}
constexpr bool of_bytes(Kind kind) {  // of q8_0
  const bool rows = kind == Kind::matmul_q8_0_rows || kind == Kind::matmul_hmx_q8_rows;
  return rows || kind == Kind::matmul_q8_0 || kind == Kind::matmul_hmx_q8;
}
constexpr bool by_blocks(Kind kind) {  // in int8 (block_layout.hpp)
  const bool rows = kind == Kind::matmul_q8_0_rows || kind == Kind::matmul_q4_0_rows;
  return rows || kind == Kind::matmul_q8_0 || kind == Kind::matmul_q4_0;
}
constexpr bool is_strip_product(Kind kind) {
  const bool fp16 = kind == Kind::matmul_hmx || kind == Kind::matmul_hmx_q8 || is_f16_product(kind);
  return fp16 || by_blocks(kind) || of_block_rows(kind);
}
constexpr bool is_panel_product(Kind kind) {
  return kind == Kind::matmul_hmx_lut || kind == Kind::matmul_hmx_int8 || kind == Kind::matmul_hmx_scaled;
}
constexpr bool is_matrix_product(Kind kind) { return is_strip_product(kind) || is_panel_product(kind); }
constexpr bool is_lut(Kind kind) {  // on HVX alone (lut_layout.hpp)
  return kind == Kind::matmul_lut || kind == Kind::matmul_lut_rounded || kind == Kind::matmul_lut_wide;
}
constexpr bool adds_rows(Kind kind) { return kind == Kind::add_rows; }  // on HVX alone, too (add_layout.hpp)
constexpr bool without_matrix(Kind kind) { return is_lut(kind) || adds_rows(kind); }
constexpr bool is_staged(Kind kind) { return is_matrix_product(kind) || without_matrix(kind); }

// Blocks of `columns` columns of a bit-serial row.
constexpr uint32_t lut_blocks(uint32_t group, uint32_t columns) { return columns >> (group == 32 ? 5 : group == 64 ? 6 : 7); }

// Bytes of `columns` columns of a bit-serial panel: of scales and planes.
struct LutPanel {
  uint32_t scales, planes;
  constexpr LutPanel(const Operator& op, uint32_t columns)
      : scales(op.scales == Scales::of_rows ? 0 : lut_blocks(op.group, columns) * kLutPanelRows * 2),
        planes(columns / 8 * op.bits * kLutPanelRows) {}
  constexpr uint32_t bytes() const { return scales + planes; }
};
// Of the scales of a panel's rows that stand before its tiles; of zero points.
constexpr uint32_t lut_row_scales(const Operator& op) { return op.scales == Scales::of_rows ? 2 * kLutPanelRows : 0; }
constexpr uint32_t lut_zeros(const Operator& op) {
  return op.zeros == Zeros::of_blocks ? kLutPanelRows * zero_bytes(op.bits, lut_blocks(op.group, op.columns)) : 0;
}
// Of a panel's first `columns` columns, and of what stands before the tiles of its rows.
constexpr uint32_t lut_bytes_to(const Operator& op, uint32_t columns) {
  return lut_row_scales(op) + lut_zeros(op) + LutPanel(op, columns).bytes();
}

// Of a strip whose rows are `depth` long.
constexpr bool tile_groups(const Operator& op) { return op.scales == Scales::of_tile_groups; }
constexpr uint32_t tile_pairs(uint32_t depth) { return (depth / kTile + 1) / 2; }
constexpr bool has_outliers(const Operator& op) { return op.scales == Scales::of_outlier_rows; }
constexpr uint32_t strip_scales(const Operator& op, uint32_t depth) {  // vectors; outliers among them, of the whole depth
  if (has_outliers(op)) return OutlierStrip{op.columns}.nibbles() / kVectorBytes;
  return is_f16_product(op.kind) ? 0 : tile_groups(op) ? tile_pairs(depth) : depth / kTile;
}
constexpr uint32_t strip_values(const Operator& op, uint32_t depth) {  // bytes: of nibbles, bytes, or fp16
  if (is_f16_product(op.kind)) return tile_pairs(depth) * kTile * kVectorBytes;
  return depth / kTile * (of_bytes(op.kind) ? kTileElements : kTileElements / 2);
}
constexpr uint32_t strip_bytes(const Operator& op, uint32_t depth) {
  return strip_scales(op, depth) * kVectorBytes + strip_values(op, depth);
}

// Rows in places become strips in pieces: the tiles, and the scales and quants of a piece. Bytes of a row's first `depth` columns.
constexpr uint32_t weight_bits(const Operator& op) { return adds_rows(op.kind) ? op.bits : of_bytes(op.kind) ? 8 : 4; }
constexpr uint32_t piece_tiles(const Operator& op) { return piece_blocks(weight_bits(op)); }
constexpr uint32_t piece_scales(const Operator& op) { return piece_tiles(op) * kVectorBytes; }
// That threads share; of other strips they are tiles, or pairs of them.
constexpr uint32_t strip_pieces(const Operator& op, uint32_t depth) {
  const uint32_t tiles = depth / kTile;
  if (of_block_rows(op.kind)) return of_bytes(op.kind) ? (tiles + 3) / 4 : (tiles + 7) / 8;
  return !by_blocks(op.kind) && (is_f16_product(op.kind) || tile_groups(op)) ? tile_pairs(depth) : tiles;
}
constexpr uint32_t row_bytes_to(const Operator& op, uint32_t depth) {
  return weight_bits(op) == 16 ? 2 * depth : depth / kBlockColumns * stored_block(weight_bits(op));
}
// Rows whose scales lie apart have them behind their nibbles in TCM, so that they take as much room as others.
constexpr bool scales_apart(const Operator& op) { return op.scales == Scales::apart; }
constexpr uint32_t nibble_bytes(uint32_t depth) { return depth / 2; }
constexpr uint32_t apart_scale_bytes(uint32_t depth) { return depth / kBlockColumns * 2; }
constexpr uint32_t scales_behind(uint32_t rows) {  // the places of so many rows
  return (rows * static_cast<uint32_t>(sizeof(uint32_t)) + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}
// Bytes of the places of an operator's rows, and of the scales behind them.
constexpr uint64_t places_bytes(const Operator& op) {
  if (!scales_apart(op)) return op.rows * sizeof(uint32_t);
  return scales_behind(op.rows) + uint64_t{op.rows} * apart_scale_bytes(op.columns);
}
constexpr uint32_t row_pitch(const Operator& op, uint32_t depth) { return static_cast<uint32_t>(placed_pitch(row_bytes_to(op, depth))); }

// A unit: the columns of a product that lie together, of which a group has several.
constexpr uint32_t unit_columns(const Operator& op) { return is_strip_product(op.kind) ? kTile : kLutPanelRows; }
constexpr uint32_t units_of(const Operator& op, uint32_t columns) {
  return is_strip_product(op.kind) ? (columns + kTile - 1) / kTile : (columns + kLutPanelRows - 1) / kLutPanelRows;
}
constexpr uint32_t unit_weights(const Operator& op, uint32_t depth) {
  if (of_block_rows(op.kind)) return kTile * row_pitch(op, depth);
  return is_strip_product(op.kind) ? strip_bytes(op, depth) : lut_bytes_to(op, depth);
}
constexpr uint32_t element_bytes(const Operator& op) {  // of a tile's element
  return op.kind == Kind::matmul_hmx_int8 || by_blocks(op.kind) ? 1 : 2;
}
constexpr uint32_t unit_tiles(const Operator& op, uint32_t depth) {  // bytes, made ready
  return is_strip_product(op.kind) ? tile_pairs(depth) * 2 * kTileElements * 2 : depth * kLutPanelRows * element_bytes(op);
}
constexpr uint64_t activation_bytes(const Operator& op, uint32_t rows) {
  return uint64_t{(rows + kTile - 1) / kTile * kTile} * op.columns * element_bytes(op);
}

inline constexpr uint32_t kDepthStep = kMostTileColumns;  // parts of the depth are multiples of it: whole tiles of every layout

// Where a buffer of whole vectors begins that is put behind the others.
constexpr uint64_t take_vectors(uint64_t& end, uint64_t bytes) {
  const uint64_t begin = end;
  end += (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  return begin;
}

// Where a plan's buffers begin in TCM, and where they end.
struct StageTcm {
  uint64_t activations = 0, result = 0, pieces = 0, in[2] = {}, ready[2] = {}, out[2] = {}, end = 0;
};
constexpr StageTcm place_stages(const Operator& op) {
  const StagePlan& plan = op.stages;
  StageTcm tcm;
  const auto take = [&tcm](uint64_t bytes) { return take_vectors(tcm.end, bytes); };
  const uint64_t units = units_of(op, plan.columns);
  const uint32_t rows = plan.rows < op.batch ? plan.rows : op.batch;
  tcm.activations = take(activation_bytes(op, rows));
  if (plan.once != 0) tcm.result = take(uint64_t{rows} * op.rows * sizeof(float));
  if (of_block_rows(op.kind)) tcm.pieces = take(pieces_room(weight_bits(op), plan.threads));
  for (uint32_t b = 0; b < groups_ahead(plan.buffers); ++b) {
    tcm.in[b] = take(units * unit_weights(op, plan.depth));
    tcm.ready[b] = take(units * unit_tiles(op, plan.depth));
    if (plan.once == 0) tcm.out[b] = take(uint64_t{rows} * plan.columns * sizeof(float));
  }
  return tcm;
}

// Whether `parts` parts are `whole`, all of them needed.
constexpr bool covers(uint64_t whole, uint64_t part, uint64_t parts) {
  return part > 0 && parts > 0 && parts <= whole && (parts - 1) * part < whole && parts * part >= whole;
}
// Whether a worker has the buffers and threads of a plan.
constexpr bool valid_units(const StagePlan& plan) {
  return plan.buffers <= 2 && plan.once <= 1 && (plan.threads == 1 || plan.threads == 2 || plan.threads == kMostVectorThreads);
}

// True for a plan that covers the product [batch, columns] x [columns, rows] of an operator exactly, and fits into TCM.
// Requires: is_matrix_product(op.kind), and possible shapes.
constexpr bool valid_stages(const Operator& op) {
  const StagePlan& plan = op.stages;
  if (!valid_units(plan)) return false;
  if (!covers(op.batch, plan.rows, plan.passes) || (plan.passes > 1 && (plan.rows & (kTile - 1)) != 0)) return false;
  if (!covers(op.rows, plan.columns, plan.groups) || (plan.groups > 1 && (plan.columns & (unit_columns(op) - 1)) != 0)) return false;
  if (!covers(op.columns, plan.depth, plan.depths)) return false;
  if (plan.depth > op.columns || plan.columns > op.rows) return false;
  // Sums stay in the unit from one part of the depth to the next: it has as many as one unit of columns needs, and a tile of rows.
  if (plan.depths > 1 && ((plan.depth & (kDepthStep - 1)) != 0 || plan.rows > kTile || plan.columns > unit_columns(op))) return false;
  return uint64_t{plan.groups} * plan.depths <= 1u << 20 && place_stages(op).end <= kTcmBytes;
}

}  // namespace vitro::hexagon
