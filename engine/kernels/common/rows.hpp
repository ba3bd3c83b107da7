// The float loops over rows of weights: dot products, and sums of weighted rows. Rows follow each other in memory, or stand
// anywhere (a neuron cache). Like lanes.hpp, which has the rules, written once over a target's V.
#pragma once
#include "engine/kernels/common/lanes.hpp"

namespace vitro::lanes {

// Weight rows of T: row r begins at address(r), its products go to column(r) of the output. Behind the last row an
// address is only ever prefetched. Always inlined: these types are no target's own, so a copy out of line would be shared.
template <class T>
struct InOrder {
  Rows<T> w;
  [[gnu::always_inline]] std::uintptr_t address(std::size_t r) const {
    return reinterpret_cast<std::uintptr_t>(w.data) + r * w.stride * sizeof(T);
  }
  [[gnu::always_inline]] std::size_t column(std::size_t r) const { return r; }
};
template <class T>
struct InPlaces {
  PlacedRows<T> w;
  const std::uint32_t* columns;
  [[gnu::always_inline]] std::uintptr_t address(std::size_t r) const {
    return reinterpret_cast<std::uintptr_t>(w.data[r < w.count ? r : w.count - 1]);
  }
  [[gnu::always_inline]] std::size_t column(std::size_t r) const { return columns[r]; }
};

// One step of dot_block. g++ 12 splits arrays into registers early: one whose address a closure holds at that time, or that a loop
// indexes which is unrolled later, stays on the stack. So the sums go to a function and into no lambda, and their loops have pragmas.
template <class V, int R, int M, class T, class X>
[[gnu::always_inline]] inline void dot_step(V (&acc)[R][M], const T* const (&w)[R], const X* x, std::size_t x_stride, std::size_t i) {
  V wv[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) wv[r] = V::load(w[r] + i);
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    const V xv = V::load(x + m * x_stride + i);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) acc[r][m] = fma(wv[r], xv, acc[r][m]);
  }
}

// Rows `first` to first + R times M activation rows. `ahead`: request the rows behind them from memory meanwhile.
template <class V, int R, int M, class T, class X, template <class> class W>
void dot_block(const W<T>& rows, std::size_t first, bool ahead, const X* x, std::size_t x_stride, std::size_t n, float* y,
               std::size_t y_stride) {
  const T* w[R];
  std::uintptr_t next[R];
  for (int r = 0; r < R; ++r) {
    w[r] = reinterpret_cast<const T*>(rows.address(first + r));
    next[r] = rows.address(first + R + r);
  }
  V acc[R][M];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) acc[r][m] = V::zero();
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (ahead) {
      for (int r = 0; r < R; ++r) prefetch(next[r] + i * sizeof(T));
    }
    dot_step(acc, w, x, x_stride, i);
  }
  if (i < n) {
    T w_rest[R][kLanes] = {};
    X x_rest[M][kLanes] = {};
    const T* padded[R];
    for (int r = 0; r < R; ++r) {
      padded[r] = w_rest[r];
      for (std::size_t k = 0; i + k < n; ++k) w_rest[r][k] = w[r][i + k];
    }
    for (int m = 0; m < M; ++m) {
      for (std::size_t k = 0; i + k < n; ++k) x_rest[m][k] = x[m * x_stride + i + k];
    }
    dot_step(acc, padded, x_rest[0], kLanes, 0);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) y[m * y_stride + rows.column(first + r)] = acc[r][m].sum();
}

// A block of rows is kept in registers and cache while the whole batch passes: prefill reads each weight once. While the
// first of the batch pass, the same place in the next block of rows is requested from memory.
template <class V, int R, class W, class X>
void dot_rows(const W& w, std::size_t first, const Rows<X>& x, float* y, std::size_t y_stride) {
  std::size_t m = 0;
  for (; m + V::kBatch <= x.count; m += V::kBatch) {
    dot_block<V, R, V::kBatch>(w, first, m == 0, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
  }
  for (; m < x.count; ++m) {
    dot_block<V, R, 1>(w, first, m == 0, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
  }
}

template <class V, class W, class X>
void all_dots(const W& rows, const Rows<X>& x, float* y, std::size_t y_stride) {
  std::size_t r = 0;
  for (; r + V::kRows <= rows.w.count; r += V::kRows) dot_rows<V, V::kRows>(rows, r, x, y, y_stride);
  for (; r < rows.w.count; ++r) dot_rows<V, 1>(rows, r, x, y, y_stride);
}

template <class V, class T, class X>
void dots(Rows<T> w, Rows<X> x, float* y, std::size_t y_stride) {
  all_dots<V>(InOrder<T>{w}, x, y, y_stride);
}

template <class V, class T>
void placed_dots(PlacedRows<T> w, const std::uint32_t* columns, Rows<float> x, float* y, std::size_t y_stride) {
  all_dots<V>(InPlaces<T>{w, columns}, x, y, y_stride);
}

// acc[h][d] = fma(p[h][i], row(i)[d], acc[h][d]) for i ascending and H sums that share the rows, with p and acc of one sum behind those of
// another: four vectors of acc stay in registers while the rows pass. ahead(i, d) is called before row i is read at d and on.
template <class V, int H, class Row, class Ahead>
[[gnu::always_inline]] inline void add_rows(std::size_t count, std::size_t columns, const float* p, std::size_t p_stride, float* acc,
                                            Row row, Ahead ahead) {
  constexpr int J = 4 / H;
  std::size_t d = 0;
  for (; d + J * kLanes <= columns; d += J * kLanes) {
    V a[H][J];
    for (int h = 0; h < H; ++h)
      for (int j = 0; j < J; ++j) a[h][j] = V::load(acc + h * columns + d + j * kLanes);
    for (std::size_t i = 0; i < count; ++i) {
      ahead(i, d);
      for (int j = 0; j < J; ++j) {
        const V v = V::load(row(i) + d + j * kLanes);
        for (int h = 0; h < H; ++h) a[h][j] = fma(V::all(p[h * p_stride + i]), v, a[h][j]);
      }
    }
    for (int h = 0; h < H; ++h)
      for (int j = 0; j < J; ++j) a[h][j].store(acc + h * columns + d + j * kLanes);
  }
  for (; d < columns; d += kLanes) {
    const std::size_t rest = columns - d < kLanes ? columns - d : kLanes;
    for (int h = 0; h < H; ++h) {
      float* y = acc + h * columns + d;
      V a = load_tail<V>(y, rest);
      for (std::size_t i = 0; i < count; ++i) a = fma(V::all(p[h * p_stride + i]), load_tail<V>(row(i) + d, rest), a);
      store_tail(a, y, rest);
    }
  }
}

template <class V, int H, class T>
void add_values(Rows<T> v, const float* p, std::size_t p_stride, float* acc) {
  add_rows<V, H>(
      v.count, v.columns, p, p_stride, acc, [&](std::size_t i) { return v.data + i * v.stride; }, [](std::size_t, std::size_t) {});
}

// Values of attention. Pairs of heads share what is loaded and converted.
template <class V, class T>
void weighted(Rows<T> v, const float* p, std::size_t p_stride, std::size_t heads, float* acc) {
  std::size_t h = 0;
  for (; h + 2 <= heads; h += 2) add_values<V, 2>(v, p + h * p_stride, p_stride, acc + h * v.columns);
  for (; h < heads; ++h) add_values<V, 1>(v, p + h * p_stride, p_stride, acc + h * v.columns);
}

// Rows that pass over acc together: so many streams of memory, each read while the row that follows it by so many is requested.
inline constexpr std::size_t kRowsTogether = 8;

// Calls f(first, count, next) for groups of rows; next[i] is the address of the row to request beside row first + i.
template <class T, class F>
[[gnu::always_inline]] inline void for_row_groups(const PlacedRows<T>& w, F f) {
  for (std::size_t first = 0; first < w.count; first += kRowsTogether) {
    std::uintptr_t next[kRowsTogether];
    for (std::size_t i = 0; i < kRowsTogether; ++i) next[i] = InPlaces<T>{w, nullptr}.address(first + kRowsTogether + i);
    f(first, w.count - first < kRowsTogether ? w.count - first : kRowsTogether, next);
  }
}

template <class V, class T>
void placed_weighted(PlacedRows<T> w, const float* p, float* acc) {
  for_row_groups(w, [&](std::size_t first, std::size_t count, const std::uintptr_t* next) __attribute__((always_inline)) {
    add_rows<V, 1>(
        count, w.columns, p + first, 0, acc, [&](std::size_t i) { return w.data[first + i]; },
        [&](std::size_t i, std::size_t d) {
          for (std::size_t line = 0; line < 4 * kLanes * sizeof(T); line += 64) prefetch(next[i] + d * sizeof(T) + line);
        });
  });
}

inline constexpr std::size_t kQ4Block = 32, kQ4Bytes = 18;

// The scales of n <= 16 consecutive blocks. Put together in scalar registers, since the vector ports bound the loop below; a V that can do
// it in a few instructions has scales_of_16(blocks).
template <class V>
[[gnu::always_inline]] inline V q4_0_scales(const std::byte* blocks, std::size_t n) {
  if constexpr (requires { V::scales_of_16(blocks); }) {
    if (n == kLanes) return V::scales_of_16(blocks);
  }
  std::uint64_t words[kLanes / 4] = {};
#pragma GCC unroll 16
  for (std::size_t i = 0; i < n; ++i) {
    Half half;
    __builtin_memcpy(&half, blocks + i * kQ4Bytes, sizeof half);
    words[i / 4] |= std::uint64_t{half} << 16 * (i % 4);
  }
  Half halves[kLanes];
  __builtin_memcpy(halves, words, sizeof halves);
  return V::load(halves);
}

// The scales of 16 blocks of each row are converted at once, then their quants pass block by block, each `step` bytes after
// the one before; nibbles begin `skip` bytes into it. scales(i, b, n) are those of blocks b to b + n of row i; ahead(i, b)
// requests those of the row behind row i.
template <class V, std::size_t step, std::size_t skip, class Scales, class Ahead>
[[gnu::always_inline]] inline void add_nibble_rows(const PlacedRows<std::byte>& w, const float* p, float* acc, Scales scales, Ahead ahead) {
  const std::size_t blocks = w.columns / kQ4Block;
  for_row_groups(w, [&](std::size_t first, std::size_t count, const std::uintptr_t* next) __attribute__((always_inline)) {
    const std::byte* const* rows = w.data + first;
    for (std::size_t b = 0; b < blocks; b += kLanes) {
      const std::size_t n = blocks - b < kLanes ? blocks - b : kLanes;
      float of_rows[kRowsTogether][kLanes];
      for (std::size_t i = 0; i < count; ++i) {
        scales(first + i, b, n).store(of_rows[i]);
        ahead(first + i, b);
      }
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t at = (b + j) * step;
        float* y = acc + (b + j) * kQ4Block;
        V low = V::load(y), high = V::load(y + kLanes);
        for (std::size_t i = 0; i < count; ++i) {
          prefetch(next[i] + at);
          V w_low, w_high;
          V::nibbles(rows[i] + at + skip, V::all(of_rows[i][j]), w_low, w_high);
          low = fma(V::all(p[first + i]), w_low, low);
          high = fma(V::all(p[first + i]), w_high, high);
        }
        low.store(y);
        high.store(y + kLanes);
      }
    }
  });
}

template <class V>
void placed_weighted_q4_0(PlacedRows<std::byte> w, const float* p, float* acc) {
  add_nibble_rows<V, kQ4Bytes, sizeof(Half)>(
      w, p, acc,
      [&](std::size_t i, std::size_t b, std::size_t n) __attribute__((always_inline)) {
        const std::byte* block = w.data[i] + b * kQ4Bytes;
        return n == kLanes ? q4_0_scales<V>(block, kLanes) : q4_0_scales<V>(block, n);
      },
      [](std::size_t, std::size_t) {});
}

template <class V>
void placed_weighted_nibbles(PlacedRows<std::byte> w, const Half* const* scales, const float* p, float* acc) {
  add_nibble_rows<V, kQ4Bytes - sizeof(Half), 0>(
      w, p, acc,
      [&](std::size_t i, std::size_t b, std::size_t n)
          __attribute__((always_inline)) { return n == kLanes ? V::load(scales[i] + b) : load_tail<V>(scales[i] + b, n); },
      [&](std::size_t i, std::size_t b) __attribute__((always_inline)) {
        const std::size_t behind = i + kRowsTogether;
        prefetch(scales[behind < w.count ? behind : w.count - 1] + b, 0);
      });
}

}  // namespace vitro::lanes
