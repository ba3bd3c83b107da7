// How attention goes through the stages of the NPU (TTS-NPU 5.2, T-MAN 4.2): one plan, which the simulated NPU prices (hw_models/npu)
// and the worker runs (hvx_worker/attention_work.hpp). One header serves all compilers, so plain words, no library and no divisions.
//
// A pass is of rows of one sequence. Rows and the query heads that share a head of keys and values are one list of queries, in tiles of 32.
// A step is a block of keys of one head: a transfer brings keys and values, HVX makes tiles of them and computes softmax, the matrix unit
// multiplies. Softmax waits for scores, and the output for softmax, so stages work on different blocks: in step j
//   in      brings the keys of block j and the values of block j - lag,
//   vector  makes tiles of both, softmax of the scores of block j - lag, and the result of a head that ended with block j - 2 lag,
//   matrix  computes the scores of block j, then adds block j - lag to the output.
// lag: as many steps as a stage may be ahead of the next one, so what a step needs of an earlier one is always there (may_start()).
#pragma once
#include "engine/base/exponential.hpp"
#include "engine/base/stage_plan.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kAttentionRows = 32;  // of a sequence, that meet its keys and values together
inline constexpr uint32_t kKeyBlock = 128;      // of a step; part of the contract, since running sums are rounded once for each
inline constexpr uint32_t kQueryTile = 32;
inline constexpr uint32_t kBlockTiles = kKeyBlock / kQueryTile;

struct AttentionPass {
  uint32_t queries = 1;  // of each head of keys and values: rows times the query heads that share it
  uint32_t heads = 1;    // of keys and values
  uint32_t keys = 1;
  uint32_t columns = 64;  // of a head, a multiple of 64: whole vectors of HVX
  Exponential exponential = Exponential::table;
  uint32_t fewest = 0;  // keys that each query sees at least

  constexpr uint32_t tiles() const { return (queries + kQueryTile - 1) / kQueryTile; }
  constexpr uint32_t depth() const { return columns / kQueryTile; }
  constexpr uint32_t blocks() const { return (keys + kKeyBlock - 1) / kKeyBlock; }
  constexpr uint32_t key_tiles() const { return (keys + kQueryTile - 1) / kQueryTile; }
  constexpr uint32_t whole_tiles() const { return fewest / kQueryTile; }  // of keys, from the first on, that all queries see
  constexpr uint32_t pairs() const { return (queries + 1) / 2; }  // of rows of a tile: HVX takes two together

  // What the stages do in a pass. Keys and values are made tiles of once for all queries.
  constexpr uint64_t made() const { return uint64_t{2} * heads * key_tiles() * kQueryTile * columns; }             // elements
  constexpr uint64_t scores() const { return uint64_t{2} * heads * pairs() * key_tiles() * kQueryTile; }           // with padding
  constexpr uint64_t masked() const {  // of these scores, in tiles that not all queries see, or that keys do not fill
    return uint64_t{2} * heads * pairs() * (key_tiles() - whole_tiles()) * kQueryTile;
  }
  constexpr uint64_t sums() const { return uint64_t{2} * heads * pairs(); }  // that results are divided by, with padding
  constexpr uint64_t results() const { return uint64_t{2} * heads * pairs() * columns; }                           // with padding
  constexpr uint64_t tile_products() const {  // Q K^T, and [diag(kept) P] [O; V], whose first part is nothing in a head's first block
    return uint64_t{heads} * tiles() * depth() * (2 * key_tiles() + blocks() - 1);
  }
  constexpr uint64_t tile_results() const { return uint64_t{heads} * tiles() * (key_tiles() + blocks() * depth()); }
};

// Columns of a head as attention keeps them; those behind its own are zero, which changes no bit.
constexpr uint32_t attention_columns(uint32_t dim) { return (dim + 63) / 64 * 64; }

// `buffers` of a worker are two at most.
constexpr StagePlan plan_attention(const AttentionPass& shape, uint32_t buffers, uint32_t threads) {
  return {.rows = shape.queries,
          .passes = 1,
          .columns = kKeyBlock,
          .groups = shape.heads * shape.blocks() + 2 * groups_ahead(buffers),
          .depth = shape.columns,
          .depths = 1,
          .buffers = buffers,
          .threads = threads,
          .once = 1};
}

// TCM of a pass, in bytes. Of those with two values, one for each buffer.
struct AttentionRoom {
  uint64_t table = 0;  // of 2^x, where it is gathered
  uint64_t queries = 0, result = 0, tops = 0;
  uint64_t in = 0, tiles = 0, weights = 0, scores = 0, output = 0, sums = 0;  // of a buffer: keys or values, tiles of them, P, S, O, sums
  constexpr explicit AttentionRoom(const AttentionPass& s) {
    constexpr uint64_t kTileBytes = uint64_t{kQueryTile} * kQueryTile * 2;
    table = s.exponential == Exponential::table ? 65536 : 0;
    queries = kTileBytes * s.heads * s.tiles() * s.depth();
    result = uint64_t{2} * s.heads * s.queries * s.columns;
    tops = sums = uint64_t{s.tiles()} * (kQueryTile / 2) * 128;
    in = uint64_t{kKeyBlock} * s.columns * 2;
    tiles = kTileBytes * kBlockTiles * s.depth();
    weights = kTileBytes * s.tiles() * (1 + kBlockTiles);
    scores = kTileBytes * s.tiles() * kBlockTiles;
    output = kTileBytes * s.tiles() * s.depth();
  }
  constexpr uint64_t of_buffer() const { return 2 * in + 2 * tiles + weights + scores + output + sums; }
  constexpr uint64_t all(uint32_t buffers) const { return table + queries + result + tops + groups_ahead(buffers) * of_buffer(); }
};

}  // namespace vitro::hexagon
