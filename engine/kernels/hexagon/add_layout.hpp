// Sums of rows in places (Kind::add_rows) in stages: where a plan's buffers stand in TCM. A step is a group of whole rows: a transfer
// brings them, and HVX threads add them to the result, each in columns of its own, so that a column has its rows in their order whatever
// the threads. There is no matrix unit, and the result of a pass leaves behind its last rows. For host and worker.
//
// In a plan `columns` and `groups` are rows of weights, and `depth` is a whole row: results are op.columns wide.
#pragma once
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kAddedTogether = 4;                                             // rows that meet a sum in one pass over it
inline constexpr uint32_t kAddedBlocks = 4, kAddedSpan = kAddedBlocks * kBlockColumns;  // of a row, made floats at a time

// Floats of a span of rows: each HVX thread has its own.
constexpr uint64_t made_bytes(uint32_t threads) { return uint64_t{threads} * kAddedTogether * kAddedSpan * sizeof(float); }

// h: of the pass, [rows][op.rows]; result: [rows][op.columns]. Loads are whole vectors and may begin at any byte of a row, so one vector
// more than the rows belongs to the operator.
struct AddTcm {
  uint64_t h = 0, result = 0, made = 0, in[2] = {}, end = 0;
};
constexpr AddTcm place_add(const Operator& op) {
  const StagePlan& plan = op.stages;
  AddTcm tcm;
  const auto take = [&tcm](uint64_t bytes) { return take_vectors(tcm.end, bytes); };
  const uint32_t rows = plan.rows < op.batch ? plan.rows : op.batch;
  tcm.h = take(uint64_t{rows} * op.rows * sizeof(float));
  tcm.result = take(uint64_t{rows} * op.columns * sizeof(float));
  tcm.made = take(made_bytes(plan.threads));
  for (uint32_t b = 0; b < groups_ahead(plan.buffers); ++b) tcm.in[b] = take(uint64_t{plan.columns} * row_pitch(op, op.columns));
  take(kVectorBytes);
  return tcm;
}

// True for a plan that covers the sum of an operator exactly, and fits into TCM. Requires: adds_rows(op.kind), and possible shapes.
constexpr bool valid_add(const Operator& op) {
  const StagePlan& plan = op.stages;
  if (!valid_units(plan) || !covers(op.batch, plan.rows, plan.passes) || !covers(op.rows, plan.columns, plan.groups)) return false;
  if (plan.once != 1 || plan.columns > op.rows || plan.depth != op.columns || plan.depths != 1) return false;
  return plan.groups <= 1u << 20 && place_add(op).end <= kTcmBytes;
}

}  // namespace vitro::hexagon
