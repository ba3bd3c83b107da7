// What the fields of Kind::attention mean for its stages (engine/base/attention_plan.hpp), and where their buffers stand in TCM. For host
// and worker; no divisions, which a Hexagon has no instruction for.
#pragma once
#include "engine/base/attention_plan.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kMostHeadColumns = 256, kMostHeads = 256, kMostQueries = 1024, kMostKeys = 1u << 20;
static_assert(kQueryTile == kTile);

constexpr AttentionPass attention_pass(const Operator& op) { return {op.batch, op.bits, op.rows, op.columns, op.exponential, op.fewest}; }
constexpr uint64_t attention_bytes(const Operator& op) { return uint64_t{op.bits} * op.batch * op.columns * 2; }  // of the result
constexpr uint64_t query_bytes(const Operator& op) { return AttentionRoom(attention_pass(op)).queries; }          // before the keys seen

// Behind the queries: keys that each sees, uint32, of whole pairs.
constexpr uint64_t seen_bytes(const Operator& op) { return uint64_t{attention_pass(op).pairs()} * 2 * sizeof(uint32_t); }

struct AttentionTcm {
  uint64_t table = 0, queries = 0, result = 0, tops = 0;
  // Of each buffer. keys, values: as they came; key_tiles [key tiles][depth], value_tiles [depth][kBlockTiles]; weights: P behind its
  // diagonal, [tiles][1 + kBlockTiles]; scores [tiles][kBlockTiles]; output [tiles][depth]; sums as tops: a vector for a pair of rows.
  uint64_t keys[2] = {}, values[2] = {}, key_tiles[2] = {}, value_tiles[2] = {};
  uint64_t weights[2] = {}, scores[2] = {}, output[2] = {}, sums[2] = {};
  uint64_t end = 0;
};
// Requires: op.stages.buffers <= 2.
constexpr AttentionTcm place_attention(const Operator& op) {
  const AttentionRoom room(attention_pass(op));
  AttentionTcm tcm;
  const auto take = [&tcm](uint64_t bytes) {
    const uint64_t begin = tcm.end;
    tcm.end += bytes;
    return begin;
  };
  tcm.table = take(room.table);
  tcm.queries = take(room.queries);
  tcm.result = take(room.result);
  tcm.tops = take(room.tops);
  for (uint32_t b = 0; b < groups_ahead(op.stages.buffers); ++b) {
    tcm.keys[b] = take(room.in);
    tcm.values[b] = take(room.in);
    tcm.key_tiles[b] = take(room.tiles);
    tcm.value_tiles[b] = take(room.tiles);
    tcm.weights[b] = take(room.weights);
    tcm.scores[b] = take(room.scores);
    tcm.output[b] = take(room.output);
    tcm.sums[b] = take(room.sums);
  }
  return tcm;
}

// True for a shape that the worker has, and its plan.
constexpr bool valid_attention(const Operator& op) {
  const StagePlan& plan = op.stages;
  const bool columns = op.columns > 0 && op.columns <= kMostHeadColumns && (op.columns & (2 * kTile - 1)) == 0;
  const bool keys = op.rows > 0 && op.rows <= op.pitch && op.pitch <= kMostKeys && (op.pitch & (kTile - 1)) == 0 && op.fewest <= op.rows;
  if (!columns || !keys || op.exponential > Exponential::f32) return false;
  if (op.batch == 0 || op.batch > kMostQueries || op.bits == 0 || op.bits > kMostHeads) return false;
  if (plan.buffers > 2 || (plan.threads != 1 && plan.threads != 2 && plan.threads != kMostVectorThreads)) return false;
  return plan == plan_attention(attention_pass(op), plan.buffers, plan.threads) && plan.groups <= 1u << 20 &&
         place_attention(op).end <= kTcmBytes;
}

}  // namespace vitro::hexagon
