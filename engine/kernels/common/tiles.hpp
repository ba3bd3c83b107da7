// The int8 loop over tiled weights, written once like lanes.hpp. A target supplies `T`, the dot products of one step: 16
// rows (one per lane) times 4 consecutive k. T has:
//   V: its 16 floats; Ints: 16 x int32; Quants, Nibbles: 64 weight bytes, 4 per row; Four: 4 activations, as its dot() wants them
//   kQuantsOffset, kNibblesOffset: what dot() has added to every weight (an unsigned instruction needs it): a multiple of 8
//   all(int32), quants(const std::byte*), nibbles(const std::byte*) -> {low, high}, four(const std::int8_t*),
//   dot(Ints, Quants or Nibbles, Four), to_floats(Ints); opaque(weights), for limits.hpp
//   value_register(const std::int8_t (&)[16]), values(const std::byte*, ValueRegister) -> {low, high} Quants that nibbles name
//   kBatch: activation rows whose sums a pass keeps in registers
// T may have Pairs, narrower sums of nibbles over 32 columns: no_pairs(), dot(Pairs, Nibbles, Four), add_pairs(Ints, Pairs); and
// sum(Ints, Ints), if its dot() takes so long that one row's sums had better be two
#pragma once
#include "engine/kernels/common/lanes.hpp"

namespace vitro::tiles {

inline constexpr std::size_t kQ4Block = 32 + 256, kQ8Block = 32 + 512;  // bytes of one block of a group: 16 scales, then quants
inline constexpr std::size_t kPrefetchBytes = 4096;                     // ahead of the first of the batch; 2 to 16 KiB measured alike

// Loops over the M activation rows are unrolled so that their sums live in registers and are not stored after each block.
template <class T>
struct Q8 {
  static constexpr std::size_t kBlock = kQ8Block;
  static constexpr std::int32_t kOffset = T::kQuantsOffset;
  static constexpr float factor = 1;
  template <int M>
  [[gnu::always_inline]] static inline void dot(typename T::Ints (&acc)[M], const std::byte* quants, const std::int8_t* x) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const auto w = T::quants(quants + 64 * j);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) acc[m] = T::dot(acc[m], w, T::four(x + 32 * m + 4 * j));
    }
  }
};

// Calls add(sums) for 32 columns of weights from 0 to 15: in 32 bits, or in what the target keeps them in meanwhile.
template <class T, int M, class Add>
[[gnu::always_inline]] inline void add_nibbles(typename T::Ints (&acc)[M], Add add) {
  if constexpr (requires { typename T::Pairs; }) {
    typename T::Pairs pairs[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) pairs[m] = T::no_pairs();
    add(pairs);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[m] = T::add_pairs(acc[m], pairs[m]);
  } else {
    add(acc);
  }
}

// Of line j of a block that stands in memory; a target has the like for its own T::Lines.
template <class T>
[[gnu::always_inline]] inline auto nibbles(const std::byte* lines, int j) {
  return T::nibbles(lines + 64 * j);
}
template <class T>
[[gnu::always_inline]] inline auto nibbles(const typename T::Lines& lines, int j) {
  return T::nibbles(lines, j);
}

template <class T>
struct Q4 {
  static constexpr std::size_t kBlock = kQ4Block;
  static constexpr std::int32_t kOffset = T::kNibblesOffset;
  static constexpr float factor = 1;
  template <int M, class Lines>
  [[gnu::always_inline]] static inline void dot(typename T::Ints (&acc)[M], const Lines& lines, const std::int8_t* x) {
    if constexpr (M == 1 && requires { T::sum(acc[0], acc[0]); }) {  // two chains, each of half the length
      auto high = T::all(0);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const auto w = nibbles<T>(lines, j);
        acc[0] = T::dot(acc[0], w.low, T::four(x + 4 * j));
        high = T::dot(high, w.high, T::four(x + 16 + 4 * j));
      }
      acc[0] = T::sum(acc[0], high);
      return;
    }
    add_nibbles<T>(acc, [&](auto& sums) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const auto w = nibbles<T>(lines, j);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) sums[m] = T::dot(sums[m], w.low, T::four(x + 32 * m + 4 * j));
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) sums[m] = T::dot(sums[m], w.high, T::four(x + 32 * m + 16 + 4 * j));
      }
    });
  }
};

// Nibbles as in Q4 that name one of 16 integers.
template <class T>
struct Values {
  static constexpr std::size_t kBlock = kQ4Block;
  static constexpr std::int32_t kOffset = T::kQuantsOffset;
  typename T::ValueRegister table;
  float factor;
  template <int M>
  [[gnu::always_inline]] inline void dot(typename T::Ints (&acc)[M], const std::byte* quants, const std::int8_t* x) const {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const auto w = T::values(quants + 64 * j, table);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) acc[m] = T::dot(acc[m], w.low, T::four(x + 32 * m + 4 * j));
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) acc[m] = T::dot(acc[m], w.high, T::four(x + 32 * m + 16 + 4 * j));
    }
  }
};

// One block of a group. `at`: of its first activation row.
template <class T, template <class> class Form, int M, class Quants>
[[gnu::always_inline]] inline void add_block(const Form<T>& form, typename T::V scales, const Quants& quants, const Int8Rows& x,
                                             std::size_t at, typename T::V (&acc)[M]) {
  using V = typename T::V;
  typename T::Ints ints[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) ints[m] = T::all(Form<T>::kOffset / 8 * x.corrections[at + m]);
  form.dot(ints, quants, x.quants + 32 * at);
  const V scale = scales * V::all(form.factor);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m] = fma(T::to_floats(ints[m]), scale * V::all(x.scales[at + m]), acc[m]);
}

// One group of rows times activation rows `row` to row + M.
template <class T, template <class> class Form, int M>
void pass(const Form<T>& form, const std::byte* w, const Int8Rows& x, std::size_t row, float* y, std::size_t y_stride) {
  using V = typename T::V;
  V acc[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m] = V::zero();
  for (std::size_t b = 0, at = row; b < x.blocks; ++b, at += x.rows, w += Form<T>::kBlock) {
    if (row == 0) lanes::prefetch_near(w, Form<T>::kBlock, kPrefetchBytes);
    add_block<T, Form, M>(form, V::load(reinterpret_cast<const Half*>(w)), w + 32, x, at, acc);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m].store(y + (row + m) * y_stride);
}

// The whole batch passes over a group while its bytes are in the nearest caches.
template <class T, template <class> class Form>
void multiply_all(const Form<T>& form, const std::byte* tiles, std::size_t groups, const Int8Rows& x, float* y, std::size_t y_stride) {
  for (std::size_t g = 0; g < groups; ++g, tiles += x.blocks * Form<T>::kBlock, y += kTileRows) {
    std::size_t m = 0;
    for (; m + T::kBatch <= x.rows; m += T::kBatch) pass<T, Form, T::kBatch>(form, tiles, x, m, y, y_stride);
    if constexpr (T::kBatch > 4) {
      for (; m + 4 <= x.rows; m += 4) pass<T, Form, 4>(form, tiles, x, m, y, y_stride);
    }
    for (; m + 2 <= x.rows; m += 2) pass<T, Form, 2>(form, tiles, x, m, y, y_stride);
    if (m < x.rows) pass<T, Form, 1>(form, tiles, x, m, y, y_stride);
  }
}

template <class T, template <class> class Form>
void multiply(const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride) {
  multiply_all(Form<T>{}, tiles, groups, x, y, y_stride);
}

template <class T>
void multiply_values(const ValueTable& values, const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride) {
  multiply_all(Values<T>{T::value_register(values.values), values.factor}, tiles, groups, x, y, y_stride);
}

}  // namespace vitro::tiles
