// FlashAttention of the stages in attention_stages.hpp, one after the other, over any instruction set: what the qfloat model runs. The
// worker's order of them is in hvx_worker/attention_work.cpp.
#pragma once
#include "engine/kernels/hexagon/attention_stages.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kMostDepth = 8, kMostStep = 8;  // tiles: of a head's dimension, and of the keys of one step

struct AttentionShape {
  uint32_t queries;  // of this tile: 1 to 32
  uint32_t keys;
  uint32_t depth;  // tiles of a head's dimension: dim = 32 depth
  uint32_t step;   // tiles of keys that a step takes together
};

// What the kernel keeps in TCM.
template <class V>
struct AttentionScratch {
  V q[kMostDepth * kTilePairs], k[kMostDepth * kTilePairs];       // tiles of Q, and of K transposed
  V s[kMostStep * kTilePairs], p[(1 + kMostStep) * kTilePairs];   // P stands behind the diagonal of what is kept
  V w[(1 + kMostStep) * kTilePairs], o[kMostDepth * kTilePairs];  // output so far, above a column of V's tiles
  V top[kTilePairs], sum[kTilePairs], kept[kTilePairs];
};

// Tiles of rows [rows, dim] of fp16 as activations, and transposed as weights; rows behind the last one are zero.
inline void tiles_of_rows(const uint16_t* x, uint32_t rows, uint32_t depth, uint16_t* tiles) {
  for (uint32_t t = 0; t < depth; ++t, tiles += kTileElements) {
    for (uint32_t r = 0; r < kTile; ++r) {
      for (uint32_t c = 0; c < kTile; ++c) tiles[tile_place(r, c)] = r < rows ? x[r * depth * kTile + t * kTile + c] : 0;
    }
  }
}
inline void tiles_transposed(const uint16_t* x, uint32_t rows, uint32_t depth, uint16_t* tiles) {
  for (uint32_t t = 0; t < depth; ++t, tiles += kTileElements) {
    for (uint32_t c = 0; c < kTile; ++c) {
      for (uint32_t r = 0; r < kTile; ++r) tiles[tile_place(r, c)] = c < rows ? x[c * depth * kTile + t * kTile + r] : 0;
    }
  }
}
// One tile of columns [first, first + 32) of x.
inline void tile_of_columns(const uint16_t* x, uint32_t rows, uint32_t depth, uint32_t first, uint16_t* tile) {
  for (uint32_t r = 0; r < kTile; ++r) {
    for (uint32_t c = 0; c < kTile; ++c) tile[tile_place(r, c)] = r < rows ? x[r * depth * kTile + first + c] : 0;
  }
}

// q: [queries, dim], multiplied by log2 e / sqrt(dim) already; k, v: [keys, dim]; out: [queries, dim]; all fp16. `table`: 2^x, 32768
// entries.
// Requires: queries, keys > 0, depth <= kMostDepth, 0 < step <= kMostStep.
template <class I, class Hmx>
void attend(const AttentionShape& shape, const uint16_t* q, const uint16_t* k, const uint16_t* v, const uint16_t* table,
            AttentionScratch<typename I::Vector>& m, Hmx& hmx, uint16_t* out) {
  const auto halves = [](typename I::Vector* vectors) { return reinterpret_cast<uint16_t*>(vectors); };
  const uint32_t rows = (shape.queries + 1) / 2 * 2, pairs = rows / 2, row = shape.depth * kTile;
  tiles_of_rows(q, shape.queries, shape.depth, halves(m.q));
  for (uint32_t i = 0; i < pairs; ++i) {
    m.top[i] = I::splat_half(kLowestHalf);
    m.sum[i] = I::splat_half(0);
  }
  for (uint32_t i = 0; i < shape.depth * kTilePairs; ++i) m.o[i] = I::splat_half(0);
  for (uint32_t first = 0; first < shape.keys; first += shape.step * kTile) {
    const uint32_t keys = shape.keys - first < shape.step * kTile ? shape.keys - first : shape.step * kTile;
    const uint32_t tiles = (keys + kTile - 1) / kTile;
    const auto keys_of = [&](uint32_t t) { return keys - t * kTile < kTile ? keys - t * kTile : kTile; };
    for (uint32_t t = 0; t < tiles; ++t) {  // line 2
      uint16_t* s = halves(m.s + t * kTilePairs);
      tiles_transposed(k + (first + t * kTile) * row, keys_of(t), shape.depth, halves(m.k));
      hmx.clear(rows);
      hmx.multiply(halves(m.q), halves(m.k), shape.depth);
      hmx.store(s);
      for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t c = keys_of(t); c < kTile; ++c) s[tile_place(r, c)] = kLowestHalf;
      }
    }
    for (uint32_t i = 0; i < pairs; ++i) {
      const auto* diagonal = reinterpret_cast<const typename I::Vector*>(kAttention.diagonal[i]);
      softmax_pair<I, ExpByTable>(m.s + i, tiles, table, *diagonal, m.top[i], m.sum[i], m.kept + i, m.p + i);
    }
    // Line 6 as one product, [diag(kept) P] [O; V]: the rescaled output is in the accumulator's precision.
    for (uint32_t d = 0; d < shape.depth; ++d) {
      for (uint32_t i = 0; i < kTilePairs; ++i) m.w[i] = m.o[d * kTilePairs + i];
      for (uint32_t t = 0; t < tiles; ++t) {
        tile_of_columns(v + (first + t * kTile) * row, keys_of(t), shape.depth, d * kTile, halves(m.w + (1 + t) * kTilePairs));
      }
      hmx.clear(rows);
      hmx.multiply(halves(m.p), halves(m.w), 1 + tiles);
      hmx.store(halves(m.o + d * kTilePairs));
    }
  }
  for (uint32_t i = 0; i < pairs; ++i) {
    const uint16_t* sums = halves(m.sum + i);
    const auto even = __builtin_bit_cast(int32_t, reciprocal(sums[0])), odd = __builtin_bit_cast(int32_t, reciprocal(sums[1]));
    for (uint32_t d = 0; d < shape.depth; ++d) {
      const typename I::Vector& o = m.o[d * kTilePairs + i];
      const typename I::Pair done = result_rows<I>(o, o, even, odd);  // the same 32 columns twice
      for (uint32_t r = 2 * i; r < 2 * i + 2 && r < shape.queries; ++r) {
        const auto* row = reinterpret_cast<const uint16_t*>(r % 2 == 0 ? &done.lo : &done.hi);
        for (uint32_t c = 0; c < kTile; ++c) out[r * shape.depth * kTile + d * kTile + c] = row[c];
      }
    }
  }
}

}  // namespace vitro::hexagon
