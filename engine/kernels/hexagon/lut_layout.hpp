// Products by table look-up in stages (T-MAN 4.3): what a step brings into TCM, and where a plan's buffers stand there. A step is a part of
// the depth as wide as the layout's tiles, of a group of rows of the matrix. For host and worker; no divisions, which a Hexagon has no
// instruction for. In this folder `lut` is such a product and what belongs to it, a `look_up` is one instruction that finds entries, and a
// `table` is what it finds them in, of a product or of anything else.
#pragma once
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kOrdinarySums = 1u << 19;  // float32 sums that wait in ordinary memory (Spill::l2), at most

constexpr uint32_t panels_of(uint32_t rows) { return (rows + kLutPanelRows - 1) / kLutPanelRows; }
constexpr uint32_t part_columns(const Operator& op) { return op.tile.columns < op.columns ? op.tile.columns : op.columns; }

// Bytes of the zero points' strings that a part of the depth needs: the first, and how many.
struct ZeroPart {
  uint32_t first = 0, count = 0;
  constexpr ZeroPart(const Operator& op, uint32_t begin, uint32_t depth) {
    if (op.zeros != Zeros::of_blocks) return;
    const uint32_t bits = zero_field_bits(op.bits), block = lut_blocks(op.group, begin);
    first = block * bits / 8;
    count = ((block + lut_blocks(op.group, depth)) * bits + 7) / 8 - first;
  }
};

// A step in TCM: zero points [bytes][panels][128 rows], the scales of rows that have one [panels][128 rows], then panels, one after the
// other, of `depth` columns each.
struct LutStep {
  uint32_t zeros, scales, panels, end;  // where they begin
  constexpr LutStep(const Operator& op, uint32_t count, uint32_t zero_bytes, uint32_t depth)
      : zeros(0),
        scales(zero_bytes * count * kLutPanelRows),
        panels(scales + count * lut_row_scales(op)),
        end(panels + count * LutPanel(op, depth).bytes()) {}
};
constexpr uint64_t step_bytes(const Operator& op, uint32_t count) {  // of any part of the depth
  const uint32_t bits = lut_blocks(op.group, part_columns(op)) * zero_field_bits(op.bits);
  return LutStep(op, count, op.zeros == Zeros::of_blocks ? (bits + 7) / 8 + 1 : 0, part_columns(op)).end;
}

// Of rows of activations: quants, what scales them, and tables of 16 sums of 16 bits, or four times 32 of 8, for four columns each.
constexpr uint64_t quant_bytes(const Operator& op, uint32_t rows) {
  return uint64_t{rows} * op.columns * (op.kind == Kind::matmul_lut_wide ? 2 : 1);
}
constexpr uint64_t quant_scale_bytes(const Operator& op, uint32_t rows) {
  const uint64_t scale = op.kind == Kind::matmul_lut_rounded ? sizeof(RoundedScale) : sizeof(ActivationScale);
  return rows * lut_blocks(op.group, op.columns) * scale;
}
constexpr uint64_t table_bytes(const Operator& op, uint32_t rows) { return uint64_t{8} * rows * op.columns; }
// What Linear leaves for Finalize, of a group's rows.
constexpr uint64_t weighted_bytes(const Operator& op, uint32_t count) {
  return uint64_t{count} * kLutPanelRows * lut_blocks(op.group, part_columns(op)) * sizeof(int32_t);
}

// tables, quants and scales stand where the next product with this input looks for them. out: results of a group, where sums wait, too;
// one more than buffers, since HVX writes them a stage earlier than the matrix unit does. Or `result`, all of it.
struct LutTcm {
  uint64_t tables = 0, quants = 0, scales = 0, weighted = 0, result = 0, in[2] = {}, out[3] = {}, end = 0;
};
// Requires: op.stages.buffers <= 2.
constexpr LutTcm place_lut(const Operator& op) {
  const StagePlan& plan = op.stages;
  LutTcm tcm;
  const auto take = [&tcm](uint64_t bytes) { return take_vectors(tcm.end, bytes); };
  const uint32_t rows = plan.rows < op.batch ? plan.rows : op.batch, panels = panels_of(plan.columns);
  tcm.tables = take(table_bytes(op, rows));
  tcm.quants = take(quant_bytes(op, rows));
  tcm.scales = take(quant_scale_bytes(op, rows));
  tcm.weighted = take(weighted_bytes(op, panels));
  if (plan.once != 0) tcm.result = take(uint64_t{rows} * op.rows * sizeof(float));
  for (uint32_t b = 0; b < groups_ahead(plan.buffers); ++b) tcm.in[b] = take(step_bytes(op, panels));
  for (uint32_t b = 0; b <= groups_ahead(plan.buffers) && plan.once == 0; ++b) {
    tcm.out[b] = take(uint64_t{rows} * plan.columns * sizeof(float));
  }
  return tcm;
}

// Whether the operator before left the tables that this one needs (T-MAN 5): they are of the same activations, and nobody else was in TCM.
constexpr bool shares_tables(const Operator& before, const Operator& op) {
  const bool same = before.kind == op.kind && before.in[1] == op.in[1] && before.in[2] == op.in[2] && before.columns == op.columns &&
                    before.batch == op.batch && before.group == op.group;
  return is_lut(op.kind) && same && before.stages.passes == 1 && op.stages.passes == 1;
}

// True for a plan that covers the product of an operator exactly, by the tiles of its layout, and fits into TCM.
// Requires: is_lut(op.kind), and possible shapes.
constexpr bool valid_lut(const Operator& op) {
  const StagePlan& plan = op.stages;
  if (!valid_units(plan) || !covers(op.batch, plan.rows, plan.passes) || !covers(op.rows, plan.columns, plan.groups)) return false;
  if (plan.columns > op.rows || (plan.groups > 1 && (plan.columns & (kLutPanelRows - 1)) != 0)) return false;
  if (plan.depth != part_columns(op) || !covers(op.columns, plan.depth, plan.depths)) return false;
  const uint64_t waiting = uint64_t{plan.rows < op.batch ? plan.rows : op.batch} * plan.columns;
  if (op.spill == Spill::l2 && plan.depths > 1 && waiting > kOrdinarySums) return false;
  return uint64_t{plan.groups} * plan.depths <= 1u << 20 && place_lut(op).end <= kTcmBytes;
}

}  // namespace vitro::hexagon
