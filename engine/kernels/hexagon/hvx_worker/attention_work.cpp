#include "engine/kernels/hexagon/hvx_worker/attention_work.hpp"

#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_ieee.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/matrix_unit.hpp"

namespace vitro::hexagon {
namespace {

HmxModel hmx;

// A block of keys by its number over all heads.
struct Block {
  bool there = false;
  uint32_t head = 0, number = 0;  // within the head
};
Block block_of(const AttentionPass& pass, uint32_t index) {  // may have wrapped below zero
  const uint32_t blocks = pass.blocks();
  if (index >= pass.heads * blocks) return {};
  Block block{true, 0, index};
  for (; block.number >= blocks; block.number -= blocks) ++block.head;
  return block;
}

// What a step works on: scores of one block, softmax and output of an earlier one, and the result of a head that has ended.
struct StepBlocks {
  Block scores, output, result;
  uint32_t buffer, lag;
  StepBlocks(const AttentionPass& pass, const StagePlan& plan, uint32_t step)
      : scores(block_of(pass, step)), buffer(buffer_of(step, plan.buffers)), lag(groups_ahead(plan.buffers)) {
    output = block_of(pass, step - lag);
    result = block_of(pass, step - 2 * lag);
    result.there = result.there && result.number + 1 == pass.blocks();
  }
  // Which of the buffers has a head's output and sums.
  uint32_t of(const Block& block) const { return lag == 2 ? block.head & 1 : 0; }
};

uint32_t tiles_of(const AttentionPass& pass, const Block& block) {
  const uint32_t left = pass.key_tiles() - block.number * kBlockTiles;
  return left < kBlockTiles ? left : kBlockTiles;
}

// Of `columns` columns in vectors of 64.
constexpr uint32_t vectors_of(uint32_t columns) { return columns / (2 * kTile); }

const unsigned char* rows_of(const AttentionWork& work, const Block& block, uint32_t which) {
  const uint32_t row = work.op->columns * 2;
  return work.operand(1) + ((2 * block.head + which) * work.op->pitch + block.number * kKeyBlock) * row;
}

void key_tiles(const AttentionWork& work, const StepBlocks& at, uint32_t thread, uint32_t threads) {
  const AttentionPass pass = attention_pass(*work.op);
  const uint32_t vectors = vectors_of(pass.columns), pieces = tiles_of(pass, at.scores) * vectors;
  const uint32_t from = first_piece(thread, threads, pieces), to = first_piece(thread + 1, threads, pieces);
  const auto* rows = work.at<const uint16_t>(work.place.keys[at.buffer]);
  auto* tiles = work.at<uint16_t>(work.place.key_tiles[at.buffer]);
  for (uint32_t piece = 0; piece < to; rows += kTile * pass.columns, tiles += pass.depth() * kTileElements) {
    for (uint32_t v = 0; v < vectors; ++v, ++piece) {
      if (piece >= from && piece < to) hvx_key_tiles(rows + v * 2 * kTile, vectors, tiles + v * 2 * kTileElements);
    }
  }
}

void value_tiles(const AttentionWork& work, const StepBlocks& at, uint32_t thread, uint32_t threads) {
  const AttentionPass pass = attention_pass(*work.op);
  const uint32_t vectors = vectors_of(pass.columns), pieces = tiles_of(pass, at.output) * vectors;
  const uint32_t from = first_piece(thread, threads, pieces), to = first_piece(thread + 1, threads, pieces);
  constexpr uint32_t kPitch = kBlockTiles * kTileElements;  // from the tiles of 32 columns to those of the next
  const auto* rows = work.at<const uint16_t>(work.place.values[at.buffer]);
  auto* tiles = work.at<uint16_t>(work.place.value_tiles[at.buffer]);
  for (uint32_t piece = 0; piece < to; rows += kTile * pass.columns, tiles += kTileElements) {
    for (uint32_t v = 0; v < vectors; ++v, ++piece) {
      uint16_t* first = tiles + 2 * v * kPitch;
      if (piece >= from && piece < to) hvx_value_tiles(rows + v * 2 * kTile, vectors, first, first + kPitch);
    }
  }
}

// Of a pair of rows of the queries: their vector of a tile's [tile][pair] in a buffer with `tiles` tiles for each tile of queries.
HVX_Vector* pair_at(const AttentionWork& work, uint64_t place, uint32_t tiles, uint32_t pair) {
  return work.at<HVX_Vector>(place) + pair / kTilePairs * tiles * kTilePairs + pair % kTilePairs;
}

// Scores of the keys that a row does not see: of pairs [from, to), in tiles that not all rows see.
void mask_scores(const AttentionWork& work, const StepBlocks& at, uint32_t from, uint32_t to) {
  const AttentionPass pass = attention_pass(*work.op);
  const auto* seen = reinterpret_cast<const uint32_t*>(work.operand(0) + query_bytes(*work.op));
  const uint32_t tiles = tiles_of(pass, at.output), first = at.output.number * kBlockTiles, whole = pass.whole_tiles();
  for (uint32_t t = whole > first ? whole - first : 0; t < tiles; ++t) {
    for (uint32_t pair = from, end; pair < to; pair = end) {  // within a tile of queries
      end = (pair / kTilePairs + 1) * kTilePairs < to ? (pair / kTilePairs + 1) * kTilePairs : to;
      auto* s = reinterpret_cast<uint16_t*>(pair_at(work, work.place.scores[at.buffer], kBlockTiles, pair) + t * kTilePairs);
      hvx_mask_scores(s, seen + 2 * pair, end - pair, (first + t) * kTile);
    }
  }
}

}  // namespace

extern "C" {

[[gnu::noinline]] void float_softmax_pair(const AttentionWork* work, const StepBlocks* at, uint32_t pair) {
  const AttentionPass pass = attention_pass(*work->op);
  const uint32_t tiles = tiles_of(pass, at->output);
  HVX_Vector* s = pair_at(*work, work->place.scores[at->buffer], kBlockTiles, pair);
  HVX_Vector& top = work->at<HVX_Vector>(work->place.tops)[pair];
  HVX_Vector& sum = work->at<HVX_Vector>(work->place.sums[at->of(at->output)])[pair];
  if (at->output.number == 0) {
    top = splat_half(kLowestHalf);
    sum = Q6_V_vzero();
  }
  alignas(kVectorBytes) HVX_Vector kept;
  HVX_Vector* p = pair_at(*work, work->place.weights[at->buffer], 1 + kBlockTiles, pair);
  const auto soften = [&]<class Exp>(Exp) {
    softmax_pair<HvxIeee, Exp>(s, tiles, work->at<const uint16_t>(work->place.table), *vectors_at(kAttention.diagonal[pair % kTilePairs]),
                               top, sum, &kept, p);
  };
  switch (pass.exponential) {
    case Exponential::table:
      return soften(ExpByTable{});
    case Exponential::f16:
      return soften(ExpByHalf{});
    case Exponential::f32:
      return soften(ExpByFloat{});
  }
}

[[gnu::noinline]] void float_attention_result(const AttentionWork* work, const StepBlocks* at, uint32_t pair) {
  const AttentionPass pass = attention_pass(*work->op);
  const uint32_t buffer = at->of(at->result), columns = pass.columns;
  const auto* shares = reinterpret_cast<const int32_t*>(work->at<HVX_Vector>(work->place.sums[buffer]) + pair);
  const HVX_Vector* o = pair_at(*work, work->place.output[buffer], pass.depth(), pair);
  auto* rows = work->at<uint16_t>(work->place.result) + (at->result.head * pass.queries + 2 * pair) * columns;
  for (uint32_t d = 0; d < pass.depth(); d += 2, o += 2 * kTilePairs, rows += 2 * kTile) {
    const HvxIeee::Pair both = result_rows<HvxIeee>(o[0], o[kTilePairs], shares[0], shares[1]);
    *vectors_at(rows) = both.lo;
    if (2 * pair + 1 < pass.queries) *vectors_at(rows + columns) = both.hi;
  }
}

}  // extern "C"

void load_queries(const AttentionWork& work, Chain& chain) {
  const AttentionRoom room(attention_pass(*work.op));
  chain.add(run_of(work.operand(0), work.at<unsigned char>(work.place.queries), static_cast<uint32_t>(room.queries)));
  chain.add(run_of(work.operand(2), work.at<unsigned char>(work.place.table), static_cast<uint32_t>(room.table)));
}

void load_block(const AttentionWork& work, uint32_t step, Chain& chain) {
  const AttentionPass pass = attention_pass(*work.op);
  const StepBlocks at(pass, work.op->stages, step);
  const uint32_t tile = kTile * pass.columns * 2;
  unsigned char* to[] = {work.at<unsigned char>(work.place.keys[at.buffer]), work.at<unsigned char>(work.place.values[at.buffer])};
  const uint32_t bytes[] = {at.scores.there ? tiles_of(pass, at.scores) * tile : 0, at.output.there ? tiles_of(pass, at.output) * tile : 0};
  const Block* const blocks[] = {&at.scores, &at.output};
  for (uint32_t which = 0; which < 2; ++which) {  // no bytes: nothing moves
    chain.add(run_of(rows_of(work, *blocks[which], which), to[which], bytes[which]));
  }
}

void attention_vectors(const AttentionWork& work, uint32_t step, uint32_t thread, uint32_t threads) {
  const AttentionPass pass = attention_pass(*work.op);
  const StepBlocks at(pass, work.op->stages, step);
  if (step == 0 && thread == 0) {  // rows that pad the last tile: the diagonal's zeros meet them
    const uint32_t pairs = pass.tiles() * kTilePairs;
    for (uint32_t b = 0; b < at.lag; ++b) {
      for (uint32_t pair = pass.pairs(); pair < pairs; ++pair) {
        HVX_Vector* o = pair_at(work, work.place.output[b], pass.depth(), pair);
        for (uint32_t d = 0; d < pass.depth(); ++d) o[d * kTilePairs] = Q6_V_vzero();
      }
    }
  }
  if (at.scores.there) key_tiles(work, at, thread, threads);
  if (at.output.there) value_tiles(work, at, thread, threads);
  const uint32_t from = first_piece(thread, threads, pass.pairs()), to = first_piece(thread + 1, threads, pass.pairs());
  if (at.result.there) {  // first: the next head may take its sums
    hvx_reciprocals(work.at<uint16_t>(work.place.sums[at.of(at.result)]) + from * (kVectorBytes / 2), to - from);
    for (uint32_t pair = from; pair < to; ++pair) float_attention_result(&work, &at, pair);
  }
  if (!at.output.there) return;
  mask_scores(work, at, from, to);
  for (uint32_t pair = from; pair < to; ++pair) float_softmax_pair(&work, &at, pair);
}

void attention_products(const AttentionWork& work, uint32_t step, volatile uint32_t& progress) {
  const AttentionPass pass = attention_pass(*work.op);
  const StepBlocks at(pass, work.op->stages, step);
  const uint32_t depth = pass.depth(), of_head = pass.tiles() * depth * kTileElements;
  constexpr uint32_t kWeightTiles = (1 + kBlockTiles) * kTileElements;
  for (uint32_t q = 0; q < pass.tiles(); ++q) {
    const uint32_t left = pass.queries - q * kTile, rows = left < kTile ? (left + 1) & ~1u : kTile;
    if (at.scores.there) {
      const auto* x = work.at<const uint16_t>(work.place.queries) + at.scores.head * of_head + q * depth * kTileElements;
      const auto* keys = work.at<const uint16_t>(work.place.key_tiles[at.buffer]);
      auto* s = work.at<uint16_t>(work.place.scores[at.buffer]) + q * kBlockTiles * kTileElements;
      for (uint32_t t = 0; t < tiles_of(pass, at.scores); ++t, s += kTileElements, keys += depth * kTileElements) {
        hmx.clear(rows);
        multiply_on(hmx, x, keys, depth);
        hmx.store(s);
      }
    }
    if (at.output.there) {
      const auto* p = work.at<const uint16_t>(work.place.weights[at.buffer]) + q * kWeightTiles;
      const auto* values = work.at<const uint16_t>(work.place.value_tiles[at.buffer]);
      auto* o = work.at<uint16_t>(work.place.output[at.of(at.output)]) + q * depth * kTileElements;
      for (uint32_t d = 0; d < depth; ++d, o += kTileElements, values += kBlockTiles * kTileElements) {
        hmx.clear(rows);
        if (at.output.number > 0) multiply_on(hmx, p, o, 1);
        multiply_on(hmx, p + kTileElements, values, tiles_of(pass, at.output));
        hmx.store(o);
      }
    }
    advance(progress);
  }
}

}  // namespace vitro::hexagon
