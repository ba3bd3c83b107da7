// Products of int8 activations with q8_0 and q4_0 in stages (engine/base/block_plan.hpp): where a plan's buffers stand in TCM, and the
// order of a strip's bytes as the matrix unit takes them in int8. For host and worker; no divisions, which Hexagon has no instruction for.
#pragma once
#include "engine/base/block_plan.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro::hexagon {

static_assert(kSummedColumns == kTile && kSummedColumns == kBlockColumns && kSummedDepth % kDepthStep == 0);

// Strips serve both contracts as they lie (panels.hpp): in the order that widening wants, a word has four elements of one column, the
// second and third exchanged. So it is one of an int8 tile with the depth in this order, which activations then have, too.
constexpr uint32_t summed_depth(uint32_t k) { return (k & ~3u) | (k & 1) << 1 | (k >> 1 & 1); }

constexpr uint32_t blocks_of(uint32_t depth) { return depth / kSummedColumns; }
constexpr uint32_t block_part(const Operator& op) { return op.columns < kSummedDepth ? op.columns : kSummedDepth; }
constexpr uint64_t block_scale_bytes(const Operator& op, uint32_t rows) {  // of activations
  return uint64_t{rows} * blocks_of(op.columns) * sizeof(float);
}
constexpr uint32_t result_pitch(const Operator& op) {  // floats from one row of results in TCM to the next
  return static_cast<uint32_t>(padded(op.stages.once != 0 ? op.rows : op.stages.columns));
}
constexpr uint32_t sum_rows(const Operator& op) {  // of a block's sums, in whole tiles
  return static_cast<uint32_t>(padded(op.stages.rows < op.batch ? op.stages.rows : op.batch));
}

// in: parts of strips; ready: tiles of bytes [strips][blocks]; sums: int32 [strips][blocks][sum_rows()][32]; kept: scales of steps whose
// sums are to come, vectors [strips][blocks]; out: results of groups, or `result`, all of them.
struct BlockTcm {
  uint64_t activations = 0, scales = 0, result = 0, pieces = 0, in[2] = {}, ready[2] = {}, sums[2] = {}, kept[3] = {}, out[4] = {}, end = 0;
};
// Requires: op.stages.buffers <= 2.
constexpr BlockTcm place_blocks(const Operator& op) {
  const StagePlan& plan = op.stages;
  BlockTcm tcm;
  const auto take = [&tcm](uint64_t bytes) { return take_vectors(tcm.end, bytes); };
  const uint32_t rows = plan.rows < op.batch ? plan.rows : op.batch, lag = groups_ahead(plan.buffers);
  const uint64_t strips = units_of(op, plan.columns), tiles = strips * blocks_of(plan.depth);
  tcm.activations = take(activation_bytes(op, rows));
  tcm.scales = take(block_scale_bytes(op, rows));
  if (plan.once != 0) tcm.result = take(uint64_t{rows} * result_pitch(op) * sizeof(float));
  if (of_block_rows(op.kind)) tcm.pieces = take(pieces_room(weight_bits(op), plan.threads));
  for (uint32_t b = 0; b < lag; ++b) {
    tcm.in[b] = take(strips * unit_weights(op, plan.depth));
    tcm.ready[b] = take(tiles * kTileElements);
    tcm.sums[b] = take(tiles * sum_rows(op) * kTile * sizeof(int32_t));
  }
  for (uint32_t b = 0; b <= lag; ++b) tcm.kept[b] = take(tiles * kVectorBytes);
  for (uint32_t b = 0; b < 2 * lag && plan.once == 0; ++b) tcm.out[b] = take(uint64_t{rows} * result_pitch(op) * sizeof(float));
  return tcm;
}

// True for a plan that covers the product of an operator exactly and fits into TCM. Requires: by_blocks(op.kind), and possible shapes.
constexpr bool valid_blocks(const Operator& op) {
  const StagePlan& plan = op.stages;
  if (!valid_units(plan) || !covers(op.batch, plan.rows, plan.passes) || !covers(op.rows, plan.columns, plan.groups)) return false;
  if (plan.passes > 1 && (plan.rows & (kTile - 1)) != 0) return false;
  if (plan.columns > op.rows || (plan.groups > 1 && (plan.columns & (kTile - 1)) != 0)) return false;
  if (plan.depth != block_part(op) || !covers(op.columns, plan.depth, plan.depths)) return false;
  return uint64_t{plan.groups} * plan.depths <= 1u << 20 && place_blocks(op).end <= kTcmBytes;
}

// What goes through the stages in a pass of an operator.
constexpr uint32_t pass_steps(const Operator& op) {
  return op.stages.steps() + (by_blocks(op.kind) ? groups_ahead(op.stages.buffers) : 0);
}

}  // namespace vitro::hexagon
