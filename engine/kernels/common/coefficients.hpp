// Sums of weighted rows in the int8 contract: what a row is weighted with is quantised instead of the row being dequantised. Sixteen
// rows are one group; of each block of 32 columns, coefficient = weight of the row times scale of its block becomes int8, and the
// quants are added in integers, four rows in one dot product. Written once over a target's T (tiles.hpp), which has in addition
//   nibbles(rows, at) -> {low, high}: 16 bytes at `at` of each of four rows, lane l holding byte l of all four, with kPlacedOffset added to
//   every weight
#pragma once
#include "engine/kernels/common/rows.hpp"
#include "engine/kernels/common/tiles.hpp"

namespace vitro::coefficients {

using lanes::kLanes;
inline constexpr std::size_t kRows = 16, kFours = kRows / 4;  // of a group

// The coefficients of a group for 16 blocks: int8 of four rows in a word, by four rows and by block.
struct Group {
  std::uint32_t fours[kFours][kLanes];
  std::int32_t corrections[kLanes];  // what dot() adds too much, negated
  float units[kLanes];               // what one of a coefficient is worth
};

// Straight code: tools/cpu_costs/generate.py prices it as such. of_rows[r][j]: row weight times block scale; rows without weight are 0.
template <class T>
void quantise(const float (&of_rows)[kRows][kLanes], Group& group) {
  using V = typename T::V;
  const V zero = V::zero(), full = V::all(127.0f);
  V amax = zero;
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
    amax = larger(amax, V::load(of_rows[r]).magnitude());
  }
  amax = select_less(amax, V::all(0x1p-100f), zero, amax);
  const V inverse = select_less(zero, amax, full / amax, zero);
  (amax / full).store(group.units);
  std::uint32_t sums[kLanes] = {};  // of what rounding leaves in a float: the quant, behind the bits of kRoundMagic
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kFours; ++g) {
    std::uint32_t bits[4][kLanes];
    for (std::size_t i = 0; i < 4; ++i) {
      float shifted[kLanes];
      (V::load(of_rows[4 * g + i]) * inverse + V::all(lanes::kRoundMagic)).store(shifted);
      __builtin_memcpy(bits[i], shifted, sizeof shifted);
    }
    // g++ 12 takes registers of 64 bytes apart, number by number, unless it holds the array for memory.
    if constexpr (sizeof(typename T::Wide) == 64) asm("" : "+m"(bits));
    for (std::size_t j = 0; j < kLanes; ++j) {
      group.fours[g][j] = (bits[0][j] & 255) | (bits[1][j] & 255) << 8 | (bits[2][j] & 255) << 16 | bits[3][j] << 24;
    }
    for (const auto& row : bits) {
      for (std::size_t j = 0; j < kLanes; ++j) sums[j] += row[j];
    }
  }
  constexpr std::uint32_t kMagicBits = __builtin_bit_cast(std::uint32_t, lanes::kRoundMagic);
  for (std::size_t j = 0; j < kLanes; ++j) {
    group.corrections[j] = -T::kPlacedOffset * static_cast<std::int32_t>(sums[j] - kRows * kMagicBits);
  }
}

// One block of a group: y[0..32) += unit * sum over rows of coefficient * quant. `at`: of the block's nibbles in each row.
template <class T>
[[gnu::always_inline]] inline void add_block(const std::byte* const* rows, std::size_t at, const Group& group, std::size_t j, float* y) {
  using V = typename T::V;
  auto low = T::all(group.corrections[j]), high = low;
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kFours; ++g) {
    const auto w = T::nibbles(rows + 4 * g, at);
    const auto x = T::four(reinterpret_cast<const std::int8_t*>(&group.fours[g][j]));
    low = T::dot(low, w.low, x);
    high = T::dot(high, w.high, x);
  }
  const V unit = V::all(group.units[j]);
  fma(T::to_floats(low), unit, V::load(y)).store(y);
  fma(T::to_floats(high), unit, V::load(y + kLanes)).store(y + kLanes);
}

// n blocks of a group from `at` on, each `step` bytes behind the one before. The same place in the rows of the next group is requested
// from memory meanwhile.
template <class T, std::size_t step>
void add_blocks(const std::byte* const* rows, const std::uintptr_t* next, std::size_t at, const Group& group, std::size_t n, float* y) {
  for (std::size_t j = 0; j < n; ++j, at += step, y += lanes::kQ4Block) {
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) lanes::prefetch(next[r] + at);
    add_block<T>(rows, at, group, j, y);
  }
}

// Nibbles begin `skip` bytes into a block of `step` bytes. scales(i, b, n) are those of blocks b to b + n of row i.
template <class T, std::size_t step, std::size_t skip, class Scales>
[[gnu::always_inline]] inline void add_rows(const PlacedRows<std::byte>& w, const float* p, float* acc, Scales scales) {
  using V = typename T::V;
  const std::size_t blocks = w.columns / lanes::kQ4Block;
  for (std::size_t first = 0; first < w.count; first += kRows) {
    const std::size_t count = w.count - first < kRows ? w.count - first : kRows;
    const std::byte* rows[kRows];
    std::uintptr_t next[kRows];
    for (std::size_t i = 0; i < kRows; ++i) {
      rows[i] = w.data[first + (i < count ? i : count - 1)];
      next[i] = lanes::InPlaces<std::byte>{w, nullptr}.address(first + kRows + i);
    }
    for (std::size_t b = 0; b < blocks; b += kLanes) {
      const std::size_t n = blocks - b < kLanes ? blocks - b : kLanes;
      float of_rows[kRows][kLanes];
      for (std::size_t i = 0; i < kRows; ++i) {
        const V c = i < count ? scales(first + i, b, n) * V::all(p[first + i]) : V::zero();
        c.store(of_rows[i]);
      }
      Group group;
      quantise<T>(of_rows, group);
      add_blocks<T, step>(rows, next, b * step + skip, group, n, acc + b * lanes::kQ4Block);
    }
  }
}

template <class T>
void q4_0(PlacedRows<std::byte> w, const float* p, float* acc) {
  add_rows<T, lanes::kQ4Bytes, sizeof(Half)>(w, p, acc, [&](std::size_t i, std::size_t b, std::size_t n) __attribute__((always_inline)) {
    const std::byte* block = w.data[i] + b * lanes::kQ4Bytes;
    return n == kLanes ? lanes::q4_0_scales<typename T::V>(block, kLanes) : lanes::q4_0_scales<typename T::V>(block, n);
  });
}

template <class T>
void nibbles(PlacedRows<std::byte> w, const Half* const* scales, const float* p, float* acc) {
  using V = typename T::V;
  add_rows<T, lanes::kQ4Bytes - sizeof(Half), 0>(w, p, acc,
                                                 [&](std::size_t i, std::size_t b, std::size_t n) __attribute__((always_inline)) {
                                                   return n == kLanes ? V::load(scales[i] + b) : lanes::load_tail<V>(scales[i] + b, n);
                                                 });
}

}  // namespace vitro::coefficients
