// Products in int8 of rows that stand anywhere, as neurons in a cache do, with one row of activations. 16 rows at a time become a group of
// Layout::tiled, but block by block and in registers: each goes straight on to the loops of tiles.hpp and k_tiles.hpp. For targets whose T
// has
//   Lines, lines(const std::byte* const* rows, std::size_t at): 16 bytes at `at` of each of 16 rows, as four lines of 16 rows x 4 bytes
//   nibbles(Lines, int line) -> {low, high}
//   scales(const std::byte* const* rows, std::size_t at) -> V: a binary16 of each
// and may have
//   scales_of_16(const std::byte* const* rows, std::size_t at, float (*by_block)[16]): those of 16 blocks of q4_0
#pragma once
#include "engine/kernels/common/k_tiles.hpp"
#include "engine/kernels/common/rows.hpp"
#include "engine/quant/transpose.hpp"

namespace vitro::tiles {

template <class T>
concept GathersLines = requires(const std::byte* const* rows) { T::lines(rows, std::size_t{}); };

// Of the rows of the next group, the lines of memory that begin in `bytes` from `at` on.
[[gnu::always_inline]] inline void request(const std::byte* const* next, std::size_t at, std::size_t bytes) {
  for (std::size_t line = (at + 63) / 64 * 64; line < at + bytes; line += 64) {
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kTileRows; ++r) lanes::prefetch(next[r], line);
  }
}

// Those of block b of each row. `ahead` keeps those of 16 blocks, where T reads so many at once.
template <class T>
[[gnu::always_inline]] inline typename T::V group_scales(const BlockGroup& rows, std::size_t b, std::size_t blocks,
                                                         float (&ahead)[lanes::kLanes][kTileRows]) {
  using V = typename T::V;
  const std::size_t at = b * rows.scale_step, whole = blocks / lanes::kLanes * lanes::kLanes;
  if constexpr (requires { T::scales_of_16(rows.scales, at, ahead); }) {
    if (rows.scale_step == lanes::kQ4Bytes && b < whole) {
      if (b % lanes::kLanes == 0) T::scales_of_16(rows.scales, at, ahead);
      return V::load(ahead[b % lanes::kLanes]);
    }
  }
  return T::scales(rows.scales, at);
}

template <class T, template <class> class Form>
void multiply_group(const BlockGroup& rows, Int8Rows x, float* y) {
  using V = typename T::V;
  const Form<T> form{};
  alignas(64) float ahead[lanes::kLanes][kTileRows];
  V acc[1] = {V::zero()};
  for (std::size_t b = 0; b < x.blocks; ++b) {
    const std::size_t at = b * rows.quant_step, scales_at = b * rows.scale_step;
    request(rows.next_quants, at, rows.quant_step);
    if (rows.scale_step != rows.quant_step) request(rows.next_scales, scales_at, rows.scale_step);
    const V scales = group_scales<T>(rows, b, x.blocks, ahead);
    if constexpr (Form<T>::kBlock == kQ4Block) {
      add_block<T, Form, 1>(form, scales, T::lines(rows.quants, at), x, b, acc);
    } else {
      alignas(64) std::byte block[8 * kLine];
      const auto first = T::lines(rows.quants, at), second = T::lines(rows.quants, at + 16);
      __builtin_memcpy(block, &first, sizeof first);
      __builtin_memcpy(block + sizeof first, &second, sizeof second);
      const std::byte* const lines = block;
      add_block<T, Form, 1>(form, scales, lines, x, b, acc);
    }
  }
  acc[0].store(y);
}

// q4_k: in the file, 32 bytes hold 32 columns in their low nibbles and the 32 behind them in the high ones.
template <class T>
void multiply_group_q4_k(const BlockGroup& rows, KRows k, float* y) {
  using V = typename T::V;
  constexpr std::size_t kScales = 4, kNibbles = 16, kRowBlock = 144;  // bytes, in the file
  alignas(64) std::byte scales[3 * kLine];
  V acc = V::zero();
  for (std::size_t s = 0, at = 0; s < k.x.blocks / kBlocks; ++s) {
    const std::size_t begin = s * kRowBlock;
    request(rows.next_scales, begin, kRowBlock);
    for (std::size_t i = 0; i < 3; ++i) {
      Units unit[4];
      for (std::size_t r = 0; r < kTileRows; ++r) {
        std::uint32_t four;
        __builtin_memcpy(&four, rows.scales[r] + begin + kScales + 4 * i, sizeof four);
        unit[r / 4][r % 4] = four;
      }
      transpose_bytes(unit);
      __builtin_memcpy(scales + kLine * i, unit, sizeof unit);
    }
    const Q4K<T> block(T::scales(rows.scales, begin), T::scales(rows.scales, begin + sizeof(Half)), scales);
    for (int b = 0; b < kBlocks; b += 2, at += 2) {
      const std::size_t from = begin + kNibbles + 16 * static_cast<std::size_t>(b);
      block.add_pair(acc, T::lines(rows.scales, from), T::lines(rows.scales, from + 16), b, k, at);
    }
  }
  acc.store(y);
}

}  // namespace vitro::tiles
