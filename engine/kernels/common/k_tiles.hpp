// The int8 loops over tiled K-quants, written once like tiles.hpp. Beside what that and code_tiles.hpp ask for, T has
//   widened(const std::byte*): 16 int8 -> Ints
// Scales are exact: a binary16 times an integer of up to 8 bits.
#pragma once
#include "engine/kernels/common/block_rows.hpp"
#include "engine/kernels/common/code_tiles.hpp"

namespace vitro::tiles {

inline constexpr int kBlocks = 8;  // of 32 columns, in a block of 256

// One block of a group of 16 rows.
template <class T>
struct Q4K {
  using V = typename T::V;
  static constexpr std::size_t kHead = 64 + 192, kBlock = 4 * kLine, kBytes = kHead + kBlocks * kBlock;
  V d, dmin;
  std::byte scales[2 * kBlocks * kTileRows];  // a byte each, then the minima

  // From the file's packing: the first four blocks have their six bits to themselves, the others their upper two in the rest.
  [[gnu::always_inline]] explicit Q4K(const std::byte* w)
      : Q4K(V::load(reinterpret_cast<const Half*>(w)), V::load(reinterpret_cast<const Half*>(w + 32)), w + kLine) {}
  // packed: the rows' 12 bytes of 6-bit scales and minima, in three lines.
  [[gnu::always_inline]] Q4K(V its_d, V its_dmin, const std::byte* packed) : d(its_d), dmin(its_dmin) {
    const auto first = T::codes(packed), second = T::codes(packed + kLine), third = T::codes(packed + 2 * kLine);
    T::store(T::field(first, 0, 63), scales);
    T::store(T::merge(T::field(third, 0, 15), T::field(first, 2, 48)), scales + kLine);
    T::store(T::field(second, 0, 63), scales + 2 * kLine);
    T::store(T::merge(T::field(third, 4, 15), T::field(second, 2, 48)), scales + 3 * kLine);
  }

  // Block b of 32 columns; `at`: of its first activation row.
  template <int M>
  [[gnu::always_inline]] inline void add(V (&acc)[M], const std::byte* w, int b, const KRows& k, std::size_t at) const {
    typename T::Ints ints[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) ints[m] = T::all((T::kNibblesOffset - 8) / 8 * k.x.corrections[at + m]);
    Q4<T>::dot(ints, w, k.x.quants + 32 * at);
    add_sums<M>(acc, ints, b, k, at);
  }

  // Blocks b and b + 1, whose columns are in the low and high nibbles of twice four lines.
  template <class Lines>
  [[gnu::always_inline]] inline void add_pair(V& acc, const Lines& first, const Lines& second, int b, const KRows& k,
                                              std::size_t at) const {
    typename T::Ints low[1], high[1];
    low[0] = T::all((T::kNibblesOffset - 8) / 8 * k.x.corrections[at]);
    high[0] = T::all((T::kNibblesOffset - 8) / 8 * k.x.corrections[at + 1]);
    const std::int8_t* x = k.x.quants + 32 * at;
    add_nibbles<T>(low, [&](auto& lows) __attribute__((always_inline)) {
      add_nibbles<T>(high, [&](auto& highs) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          const auto w = nibbles<T>(j < 4 ? first : second, j % 4);
          lows[0] = T::dot(lows[0], w.low, T::four(x + 4 * j));
          highs[0] = T::dot(highs[0], w.high, T::four(x + 32 + 4 * j));
        }
      });
    });
    V sums[1] = {acc};
    add_sums<1>(sums, low, b, k, at);
    add_sums<1>(sums, high, b + 1, k, at + 1);
    acc = sums[0];
  }

 protected:
  template <int M>
  [[gnu::always_inline]] inline void add_sums(V (&acc)[M], const typename T::Ints (&ints)[M], int b, const KRows& k, std::size_t at) const {
    const V scale = d * T::to_floats(T::widened(scales + kTileRows * b));
    const V minimum = dmin * T::to_floats(T::widened(scales + kTileRows * (kBlocks + b)));
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      acc[m] = fma(minimum, V::all(k.offsets[at + m]), acc[m]);
      acc[m] = fma(T::to_floats(ints[m]), scale * V::all(k.x.scales[at + m]), acc[m]);
    }
  }
};

// Codes of five bits, of which a line behind the nibbles has the fifth.
template <class T>
struct Q5K : Q4K<T> {
  using V = typename T::V;
  static constexpr std::size_t kHead = Q4K<T>::kHead, kBlock = 5 * kLine, kBytes = kHead + kBlocks * kBlock;
  using Q4K<T>::Q4K;

  template <int M>
  [[gnu::always_inline]] inline void add(V (&acc)[M], const std::byte* w, int b, const KRows& k, std::size_t at) const {
    typename T::Ints ints[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) ints[m] = T::all(0);
    const auto fifths = T::codes(w + 4 * kLine);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const auto codes = T::merge(T::field(T::codes(w + kLine * (j % 4)), j / 4 * 4, 15), T::field(fifths, j - 4, 16));
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) ints[m] = T::dot(ints[m], codes, T::four(k.x.quants + 32 * (at + m) + 4 * j));
    }
    this->template add_sums<M>(acc, ints, b, k, at);
  }
};

template <class T>
struct Q6K {
  using V = typename T::V;
  static constexpr std::size_t kHead = 32 + 2 * kBlocks * kTileRows, kBlock = 6 * kLine, kBytes = kHead + kBlocks * kBlock;
  V d;
  const std::byte* scales;

  [[gnu::always_inline]] explicit Q6K(const std::byte* w) : d(V::load(reinterpret_cast<const Half*>(w))), scales(w + 32) {}

  [[gnu::always_inline]] static inline auto quad(const std::byte* w, int j) {
    const auto low = T::field(T::codes(w + kLine * (j % 4)), j / 4 * 4, 15);
    return T::merge(low, T::field(T::codes(w + 4 * kLine + kLine * (j % 2)), j / 2 * 2 - 4, 48));
  }
  template <int M>
  [[gnu::always_inline]] inline void add(V (&acc)[M], const std::byte* w, int b, const KRows& k, std::size_t at) const {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      typename T::Ints ints[M];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) ints[m] = T::all(k.starts[2 * (at + m) + half]);
#pragma GCC unroll 4
      for (int j = 4 * half; j < 4 * half + 4; ++j) {
        const auto codes = quad(w, j);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) ints[m] = T::dot(ints[m], codes, T::four(k.x.quants + 32 * (at + m) + 4 * j));
      }
      const V scale = d * T::to_floats(T::widened(scales + kTileRows * (2 * b + half)));
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) acc[m] = fma(T::to_floats(ints[m]), scale * V::all(k.x.scales[at + m]), acc[m]);
    }
  }
};

// Nibbles as in q4_0 that name values of a table.
template <class T>
struct Iq4Xs {
  using V = typename T::V;
  static constexpr std::size_t kHead = 32 + 6 * kTileRows, kBlock = 4 * kLine, kBytes = kHead + kBlocks * kBlock;
  V d;
  typename T::ValueRegister table = T::value_register(kIq4Values);
  std::byte scales[kBlocks * kTileRows];

  // A row's two bytes of upper bits come first, a pair of bits for each block; then a nibble for each.
  [[gnu::always_inline]] explicit Iq4Xs(const std::byte* w) : d(V::load(reinterpret_cast<const Half*>(w))) {
    const std::byte *upper = w + 32, *lower = upper + 2 * kTileRows;
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      const auto low = block_rows::load(lower + kTileRows * (b / 2)) >> 4 * (b % 2) & 15;
      const auto high = block_rows::load(upper + kTileRows * (b / 4)) >> 2 * (b % 4) & 3;
      const auto scale = (low | high << 4) - 32;
      __builtin_memcpy(scales + kTileRows * b, &scale, sizeof scale);
    }
  }

  template <int M>
  [[gnu::always_inline]] inline void add(V (&acc)[M], const std::byte* w, int b, const KRows& k, std::size_t at) const {
    typename T::Ints ints[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) ints[m] = T::all(T::kQuantsOffset / 8 * k.x.corrections[at + m]);
    Values<T>{table, 1}.dot(ints, w, k.x.quants + 32 * at);
    const V scale = d * T::to_floats(T::widened(scales + kTileRows * b));
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[m] = fma(T::to_floats(ints[m]), scale * V::all(k.x.scales[at + m]), acc[m]);
  }
};

// One group of rows times activation rows `row` to row + M.
template <class T, template <class> class Form, int M>
void k_pass(const std::byte* w, const KRows& k, std::size_t row, float* y, std::size_t y_stride) {
  using V = typename T::V;
  constexpr std::size_t kHead = Form<T>::kHead, kBlock = Form<T>::kBlock;
  V acc[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m] = V::zero();
  std::size_t at = row;
  for (std::size_t s = 0; s < k.x.blocks / kBlocks; ++s) {
    if (row == 0) lanes::prefetch_near(w, kHead, kPrefetchBytes);
    const Form<T> block(w);
    w += kHead;
    for (int b = 0; b < kBlocks; ++b, at += k.x.rows, w += kBlock) {
      if (row == 0) lanes::prefetch_near(w, kBlock, kPrefetchBytes);
      block.template add<M>(acc, w, b, k, at);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m].store(y + (row + m) * y_stride);
}

template <class T, template <class> class Form>
void multiply_k(const std::byte* tiles, std::size_t groups, KRows k, float* y, std::size_t y_stride) {
  for (std::size_t g = 0; g < groups; ++g, tiles += k.x.blocks / kBlocks * Form<T>::kBytes, y += kTileRows) {
    std::size_t m = 0;
    for (; m + T::kBatch <= k.x.rows; m += T::kBatch) k_pass<T, Form, T::kBatch>(tiles, k, m, y, y_stride);
    if constexpr (T::kBatch > 4) {
      for (; m + 4 <= k.x.rows; m += 4) k_pass<T, Form, 4>(tiles, k, m, y, y_stride);
    }
    for (; m + 2 <= k.x.rows; m += 2) k_pass<T, Form, 2>(tiles, k, m, y, y_stride);
    if (m < k.x.rows) k_pass<T, Form, 1>(tiles, k, m, y, y_stride);
  }
}

}  // namespace vitro::tiles
