// The int8 loops over codebook formats, written once like tiles.hpp. Blocks of 16 rows in file order become bytes in the nearest cache,
// 16 rows by 256 columns, which all activation rows meet there. Finding the bytes takes most of the time with few activation rows.
#pragma once
#include "engine/kernels/common/k_tiles.hpp"
#include "engine/quant/codebook_blocks.hpp"
#include "engine/quant/transpose.hpp"

namespace vitro::tiles {

// A block of each of 16 rows: lines of 16 rows by 4 columns, and what a row's columns share.
struct CodebookTile {
  alignas(64) std::byte lines[8 * kBlocks][kLine];
  alignas(64) std::byte rows[kTileRows][32 * kBlocks];  // the same in the order of the file, from which lines are made
  std::byte scales[2 * kBlocks][kTileRows];  // of 16 columns, or of 32
  Half halves[kTileRows];
};

// The 256 integers of a row's block. T may have
//   kOctets; with_signs(const std::int64_t (&entries)[kOctets], const std::byte* marks, std::byte* to), and the like with_deltas()
template <class T, Format kFormat>
[[gnu::always_inline]] inline void expand_row(const std::byte* in, std::byte* to) {
  using Codec = codebook::Codec<kFormat>;
  std::uint32_t marks[kBlocks];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) marks[b] = Codec::marks(in, b);
  if constexpr (requires { T::kOctets; }) {
    constexpr int kTogether = T::kOctets / 4;
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; b += kTogether) {
      std::int64_t octets[T::kOctets];
      for (int i = 0; i < kTogether; ++i) {
        Codec::octets(in, b + i, [&](int j, std::uint64_t entries) __attribute__((always_inline)) {
          octets[4 * i + j] = static_cast<std::int64_t>(entries);
        });
      }
      const auto* const its = reinterpret_cast<const std::byte*>(marks + b);
      Codec::kSigned ? T::with_signs(octets, its, to + 32 * b) : T::with_deltas(octets, its, to + 32 * b);
      asm("" ::: "memory");  // else g++ 12 looks all entries up first, more than there are registers
    }
  } else {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      Codec::octets(in, b, [&](int j, std::uint64_t entries) __attribute__((always_inline)) {
        std::uint64_t values = Codec::changed(entries, marks[b] >> 8 * j & 255);
        asm("" : "+r"(values));  // else g++ 12 gathers them in a wide register first, which takes longer than to store each
        __builtin_memcpy(to + 32 * b + 8 * j, &values, sizeof values);
      });
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void to_lines(CodebookTile& tile) {
  if constexpr (requires(const std::byte* const* rows) { T::lines(rows, std::size_t{}); }) {
    const std::byte* rows[kTileRows];
    for (std::size_t r = 0; r < kTileRows; ++r) rows[r] = tile.rows[r];
    for (std::size_t i = 0; i < 2 * kBlocks; ++i) {
      const auto lines = T::lines(rows, 16 * i);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < 4; ++j) __builtin_memcpy(tile.lines[4 * i + j], &lines.line[j], kLine);
    }
  } else {
    for (std::size_t i = 0; i < 2 * kBlocks; ++i) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kTileRows; r += 4) {
        Units unit[4];
        for (std::size_t k = 0; k < 4; ++k) __builtin_memcpy(&unit[k], tile.rows[r + k] + 16 * i, sizeof unit[k]);
        transpose(unit);
        for (std::size_t k = 0; k < 4; ++k) __builtin_memcpy(tile.lines[4 * i + k] + 4 * r, &unit[k], sizeof unit[k]);
      }
    }
  }
}

// From `at` of each of 16 rows; the same place of the rows `next` is requested from memory. All rows are written before they are read in
// another order: by then their bytes are in the cache, and not on their way to it.
template <class T, Format kFormat>
void expand(const std::byte* const* rows, const std::byte* const* next, std::size_t at, CodebookTile& tile) {
  using Codec = codebook::Codec<kFormat>;
  constexpr int kRuns = 32 / Codec::kRun;
  for (std::size_t r = 0; r < kTileRows; ++r) {
    const std::byte* const in = rows[r] + at;
    for (std::size_t line = 0; line < kFormat.block_bytes(); line += 64) lanes::prefetch(next[r], at + line);
    tile.halves[r] = Codec::d(in);
    expand_row<T, kFormat>(in, tile.rows[r]);
#pragma GCC unroll 16
    for (int i = 0; i < kRuns * kBlocks; ++i) tile.scales[i][r] = static_cast<std::byte>(Codec::scale(in, i / kRuns, i % kRuns));
  }
  to_lines<T>(tile);
}

// Adds to y the products of a tile with activation rows `row` to row + M. `at`: of the first block of 32 of activation row 0.
template <class T, int kRun, int M>
void codebook_pass(const CodebookTile& tile, float unit, const KRows& k, std::size_t at, std::size_t row, float* y, std::size_t y_stride) {
  using V = typename T::V;
  constexpr int kRuns = 32 / kRun, kLines = kRun / 4;
  const V d = V::load(tile.halves) * V::all(unit);
  at += row;
  V acc[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m] = V::load(y + (row + m) * y_stride);
  for (int b = 0; b < kBlocks; ++b, at += k.x.rows) {
#pragma GCC unroll 2
    for (int run = 0; run < kRuns; ++run) {
      typename T::Ints ints[M];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        if constexpr (kRuns == 1) ints[m] = T::all(T::kQuantsOffset / 8 * k.x.corrections[at + m]);
        if constexpr (kRuns == 2) ints[m] = T::all(T::kQuantsOffset / 32 * k.starts[2 * (at + m) + run]);
      }
#pragma GCC unroll 8
      for (int j = kLines * run; j < kLines * (run + 1); ++j) {
        const auto w = T::quants(tile.lines[8 * b + j]);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) ints[m] = T::dot(ints[m], w, T::four(k.x.quants + 32 * (at + m) + 4 * j));
      }
      const V scale = d * T::to_floats(T::widened(tile.scales[kRuns * b + run]));
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) acc[m] = fma(T::to_floats(ints[m]), scale * V::all(k.x.scales[at + m]), acc[m]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m].store(y + (row + m) * y_stride);
}

template <class T, int kRun>
void codebook_passes(const CodebookTile& tile, float unit, const KRows& k, std::size_t at, float* y, std::size_t y_stride) {
  std::size_t m = 0;
  for (; m + T::kBatch <= k.x.rows; m += T::kBatch) codebook_pass<T, kRun, T::kBatch>(tile, unit, k, at, m, y, y_stride);
  if constexpr (T::kBatch > 4) {
    for (; m + 4 <= k.x.rows; m += 4) codebook_pass<T, kRun, 4>(tile, unit, k, at, m, y, y_stride);
  }
  for (; m + 2 <= k.x.rows; m += 2) codebook_pass<T, kRun, 2>(tile, unit, k, at, m, y, y_stride);
  if (m < k.x.rows) codebook_pass<T, kRun, 1>(tile, unit, k, at, m, y, y_stride);
}

template <class T>
void codebook_rows(Format format, const std::byte* const* rows, const std::byte* const* next, const KRows& k, float* y,
                   std::size_t y_stride) {
  for (std::size_t m = 0; m < k.x.rows; ++m) T::V::zero().store(y + m * y_stride);
  codebook::with_format(format, [&]<Format kFormat>() __attribute__((always_inline)) {
    using Codec = codebook::Codec<kFormat>;
    CodebookTile tile;
    for (std::size_t s = 0; s < k.x.blocks / kBlocks; ++s) {
      expand<T, kFormat>(rows, next, s * kFormat.block_bytes(), tile);
      codebook_passes<T, Codec::kRun>(tile, Codec::kUnit, k, s * kBlocks * k.x.rows, y, y_stride);
    }
  });
}

}  // namespace vitro::tiles
