// How a product of int8 activations with weights in blocks of 32 columns (q8_0, q4_0 in the contract `int8`) goes through the stages of the
// NPU: a block is as deep as a tile of the matrix unit, so each pair of tiles leaves integer sums of its own, and HVX scales them and adds
// them up in the contract's order. The simulated NPU prices this plan (hw_models/npu) and the worker runs it (hvx_worker/block_work.hpp).
//
// A step is a part of the depth of a group of columns: a transfer brings its weights, HVX makes tiles of bytes, the matrix unit multiplies.
// HVX scales the sums of step j in step j + lag; lag: as many steps as a stage may be ahead of the next one, so the sums are there
// (may_start()). So a pass has `lag` steps more than its plan has parts. One header serves all compilers.
#pragma once
#include "engine/base/stage_plan.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kSummedColumns = 32;  // that share a scale, and a sum of integers
inline constexpr uint32_t kSummedDepth = 512;   // of a step, at most: 16 sums wait for each number of the result

constexpr uint32_t stored_block(uint32_t bits) { return 2 + kSummedColumns / 8 * bits; }  // bytes of a block in a file

// Rows that lie in places of their own, as a file has them, become strips in pieces: a vector of quants of each of 32 rows, beside which
// stand their scales. Each HVX thread keeps one in TCM.
inline constexpr uint32_t kPieceVector = 128, kPieceQuants = 32 * kPieceVector;
constexpr uint32_t piece_blocks(uint32_t bits) { return bits == 8 ? 4 : 8; }  // of a row
constexpr uint32_t piece_bytes(uint32_t bits) { return kPieceQuants + piece_blocks(bits) * kPieceVector; }
constexpr uint64_t placed_pitch(uint64_t row) {  // rows begin with a vector
  return (row + kPieceVector - 1) / kPieceVector * kPieceVector;
}
constexpr uint64_t pieces_room(uint32_t bits, uint32_t threads) { return threads * piece_bytes(bits); }

struct BlockShape {
  uint32_t columns, depth;  // of the result; of the product, a multiple of kSummedColumns
  uint32_t bits;            // of a weight
  uint64_t stored;          // bytes of a column of the result in the model's file
  uint32_t in_pieces = 0;   // HVX threads that make strips of rows in places; none: weights are strips
  constexpr uint32_t part() const { return depth < kSummedDepth ? depth : kSummedDepth; }
};

constexpr uint64_t padded(uint64_t n) { return (n + 31) / 32 * 32; }  // to tiles of the matrix unit

// What a pass of `rows` rows keeps in TCM. once: bytes of a result that is collected there, at most.
constexpr StageRoom block_room(const BlockShape& shape, uint32_t rows, uint64_t once, uint32_t buffers) {
  const uint64_t part = shape.part(), blocks = part / kSummedColumns, lag = groups_ahead(buffers);
  StageRoom room;
  room.activations = padded(rows) * shape.depth + uint64_t{rows} * (shape.depth / kSummedColumns) * sizeof(float);
  room.in = part * shape.bits / 8 + blocks * sizeof(float);  // a scale stands twice
  if (shape.in_pieces > 0) {
    room.in = placed_pitch(blocks * stored_block(shape.bits));
    room.sums = pieces_room(shape.bits, shape.in_pieces);
  }
  room.ready = part;
  const uint64_t stored = shape.stored * part / shape.depth;
  room.streamed = stored > room.ready / 4 ? stored : room.ready / 4;
  room.spill = lag * padded(rows) * blocks * sizeof(int32_t) + (lag + 1) * blocks * sizeof(float);  // sums, and scales until they are there
  const uint64_t result = uint64_t{rows} * shape.columns * sizeof(float);
  if (result <= once) {
    room.result = rows * padded(shape.columns) * sizeof(float);
  } else {
    room.out = rows * sizeof(float);
    room.spill += lag * room.out;  // results are written `lag` steps after their group's last multiplication, and leave later
  }
  return room;
}

}  // namespace vitro::hexagon
