// The matrix unit behind a narrow interface: load tiles, multiply and accumulate, store a tile. HMX has no public instructions;
// what is public is used (TTS-NPU 3.1.2 and Fig. 4): tiles of 32 x 32, the order of their elements, sums in at least float32, a
// scale and a bias per column, at most 32 tiles per load. HmxModel is that in plain C++, for the worker and for the CPU's tests;
// on a phone a class with the same members and real instructions takes its place (docs/design/hexagon.md).
//
// x, w, out below are tiles: activations [rows, depth], weights [depth, columns], results [rows, columns], each in tile order. A
// result is therefore laid out like a weight tile with `rows` as its depth.
#pragma once
#include <stdint.h>

#include "engine/kernels/hexagon/half.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kTile = 32;                     // rows, depth and columns
inline constexpr uint32_t kTileElements = kTile * kTile;  // 2 KiB of fp16: 16 vectors
inline constexpr uint32_t kTilePairs = kTile / 2;         // vectors of a tile of fp16: pairs of rows
inline constexpr uint32_t kMostTiles = 32;                // of a load

// Where an element of a tile stands, in elements. fp16: every two rows are permuted, as Fig. 4a has it. int8: every four, so that a
// word is again one column's; assumed, since nothing public has it.
constexpr uint32_t tile_place(uint32_t row, uint32_t column) { return row / 2 * (2 * kTile) + column * 2 + row % 2; }
constexpr uint32_t tile_place_int8(uint32_t row, uint32_t column) { return row / 4 * (4 * kTile) + column * 4 + row % 4; }

// Of the output: element (r, c) becomes acc * scale[c] + bias[c]. Null: 1 and 0.
struct HmxColumns {
  const float *scale = nullptr, *bias = nullptr;  // [kTile]
};

class HmxModel {
 public:
  // `rows`, `columns`: how many of the accumulator anybody will look at. The unit computes all of them; the model saves its time, of
  // columns in fp16 alone.
  void clear(uint32_t rows = kTile, uint32_t columns = kTile) {
    rows_ = rows;
    columns_ = columns;
    for (uint32_t i = 0; i < rows * kTile; ++i) {
      sums_[i] = 0;
      counts_[i] = 0;
    }
  }

  // acc += x w over `tiles` pairs of tiles, depth ascending. A product of halves is exact in float32; each sum is rounded to it.
  // Requires: tiles <= kMostTiles.
  void multiply(const uint16_t* x, const uint16_t* w, uint32_t tiles) {
    for (uint32_t t = 0; t < tiles; ++t, x += kTileElements, w += kTileElements) {
      for (uint32_t k = 0; k < kTile; ++k) {
        float row[kTile];
        for (uint32_t c = 0; c < columns_; ++c) row[c] = half_value(w[tile_place(k, c)]);
        for (uint32_t r = 0; r < rows_; ++r) {
          const float factor = half_value(x[tile_place(r, k)]);
          float* sums = sums_ + r * kTile;
          for (uint32_t c = 0; c < columns_; ++c) sums[c] = sums[c] + factor * row[c];
        }
      }
    }
  }

  // The same in int8, exact in 32 bits for a depth below 2^17. Requires: tiles <= kMostTiles.
  void multiply(const int8_t* x, const int8_t* w, uint32_t tiles) {
    for (uint32_t t = 0; t < tiles; ++t, x += kTileElements, w += kTileElements) {
      for (uint32_t k = 0; k < kTile; ++k) {
        for (uint32_t r = 0; r < rows_; ++r) {
          const int32_t factor = x[tile_place_int8(r, k)];
          for (uint32_t c = 0; c < kTile; ++c) counts_[r * kTile + c] += factor * w[tile_place_int8(k, c)];
        }
      }
    }
  }

  // The accumulator's rows as an fp16 tile: of the float32 sums, or of the integer ones.
  void store(uint16_t* out, HmxColumns columns = {}) const {
    for (uint32_t r = 0; r < rows_; ++r) {
      for (uint32_t c = 0; c < kTile; ++c) out[tile_place(r, c)] = scaled(sums_[r * kTile + c], columns, c);
    }
  }
  void store_int8(uint16_t* out, HmxColumns columns = {}) const {
    for (uint32_t r = 0; r < rows_; ++r) {
      for (uint32_t c = 0; c < kTile; ++c) out[tile_place(r, c)] = scaled(static_cast<float>(counts_[r * kTile + c]), columns, c);
    }
  }
  // The integer sums as they are, [rows][kTile]. Nothing public says that the unit gives them away.
  void store_sums(int32_t* out) const {
    for (uint32_t i = 0; i < rows_ * kTile; ++i) out[i] = counts_[i];
  }

 private:
  static uint16_t scaled(float sum, HmxColumns columns, uint32_t c) {
    if (columns.scale == nullptr && columns.bias == nullptr) return half_bits(sum);
    const float scale = columns.scale != nullptr ? columns.scale[c] : 1.0f, bias = columns.bias != nullptr ? columns.bias[c] : 0.0f;
    return half_bits(__builtin_fmaf(sum, scale, bias));
  }

  uint32_t rows_ = kTile, columns_ = kTile;
  float sums_[kTileElements] = {};
  int32_t counts_[kTileElements] = {};
};

}  // namespace vitro::hexagon
