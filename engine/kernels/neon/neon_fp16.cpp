// What cores with float16 instructions have beside their set: sums and products in float16 (FEAT_FP16), and dot products of float16 numbers
// added up in float32 (FEAT_FHM). Each instruction rounds once, so the bits are those of float32 lanes over converted numbers.
#include "engine/kernels/neon/sets.hpp"
#include "engine/kernels/neon/vector.hpp"

namespace vitro {
namespace {

float16x8_t load(const Half* p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }
void store(float16x8_t v, Half* p) { vst1q_u16(p, vreinterpretq_u16_f16(v)); }

// y[i] = f(a, b at i) for eight numbers at a time.
template <class F>
void each_eight(const Half* a, const Half* b, std::size_t n, Half* y, F f) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) store(f(load(a + i), load(b + i)), y + i);
  if (i == n) return;
  Half of_a[8] = {}, of_b[8] = {};
  for (std::size_t k = 0; i + k < n; ++k) of_a[k] = a[i + k], of_b[k] = b[i + k];
  store(f(load(of_a), load(of_b)), of_a);
  for (std::size_t k = 0; i + k < n; ++k) y[i + k] = of_a[k];
}

void add(const Half* a, const Half* b, std::size_t n, Half* y) {
  each_eight(a, b, n, y, [](float16x8_t u, float16x8_t v) { return vaddq_f16(u, v); });
}

void relu(const Half* gate, const Half* up, std::size_t n, Half* h) {
  each_eight(gate, up, n, h, [](float16x8_t g, float16x8_t u) {
    const uint16x8_t positive = vcgtq_f16(g, vdupq_n_f16(0));
    return vmulq_f16(vreinterpretq_f16_u16(vandq_u16(positive, vreinterpretq_u16_f16(g))), u);
  });
}

// Lanes 4 apart, 2, 1.
float sum(float16x8_t lanes) {
  const float16x4_t four = vadd_f16(vget_low_f16(lanes), vget_high_f16(lanes)), two = vadd_f16(four, vext_f16(four, four, 2));
  return vgetq_lane_f32(vcvt_f32_f16(vadd_f16(two, vext_f16(two, two, 1))), 0);
}

// Sums in float16: R rows of weights times M of activations, two registers of eight lanes each. No lambda: see lanes::dot_step.
template <int R, int M>
[[gnu::always_inline]] inline void half_step(float16x8_t (&acc)[R][M][2], const Half* w, std::size_t w_stride, const Half* x,
                                             std::size_t x_stride) {
#pragma GCC unroll 2
  for (int part = 0; part < 2; ++part) {
    float16x8_t rows[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) rows[r] = load(w + r * w_stride + 8 * part);
#pragma GCC unroll 2
    for (int m = 0; m < M; ++m) {
      const float16x8_t of_x = load(x + m * x_stride + 8 * part);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) acc[r][m][part] = vfmaq_f16(acc[r][m][part], rows[r], of_x);
    }
  }
}

template <int R, int M>
void half_block(const Half* w, std::size_t w_stride, const Half* x, std::size_t x_stride, std::size_t n, float* y, std::size_t y_stride) {
  constexpr std::size_t kLanes = lanes::kLanes;
  float16x8_t acc[R][M][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int m = 0; m < M; ++m) acc[r][m][0] = acc[r][m][1] = vdupq_n_f16(0);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int r = 0; r < R; ++r) lanes::prefetch(w + (R + r) * w_stride, i * sizeof(Half));
    half_step(acc, w + i, w_stride, x + i, x_stride);
  }
  if (i < n) {
    Half w_rest[R][kLanes] = {}, x_rest[M][kLanes] = {};
    for (std::size_t k = 0; i + k < n; ++k) {
      for (int r = 0; r < R; ++r) w_rest[r][k] = w[r * w_stride + i + k];
      for (int m = 0; m < M; ++m) x_rest[m][k] = x[m * x_stride + i + k];
    }
    half_step(acc, w_rest[0], kLanes, x_rest[0], kLanes);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int m = 0; m < M; ++m) y[m * y_stride + r] = sum(vaddq_f16(acc[r][m][0], acc[r][m][1]));
}

template <int R>
void half_rows(const Half* w, std::size_t w_stride, const Rows<Half>& x, float* y, std::size_t y_stride) {
  std::size_t m = 0;
  for (; m + 2 <= x.count; m += 2) half_block<R, 2>(w, w_stride, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
  for (; m < x.count; ++m) half_block<R, 1>(w, w_stride, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
}

void half_sums(Rows<Half> w, Rows<Half> x, float* y, std::size_t y_stride) {
  std::size_t r = 0;
  for (; r + 4 <= w.count; r += 4) half_rows<4>(w.data + r * w.stride, w.stride, x, y + r, y_stride);
  for (; r < w.count; ++r) half_rows<1>(w.data + r * w.stride, w.stride, x, y + r, y_stride);
}

// Sixteen numbers of a row.
struct Sixteen {
  float16x8_t first, second;
};
Sixteen sixteen(const Half* p) { return {load(p), load(p + 8)}; }

Vector fma(Sixteen a, Sixteen b, Vector c) {
  return {{vfmlalq_low_f16(c.q[0], a.first, b.first), vfmlalq_high_f16(c.q[1], a.first, b.first),
           vfmlalq_low_f16(c.q[2], a.second, b.second), vfmlalq_high_f16(c.q[3], a.second, b.second)}};
}

// Loops over sums have pragmas and no lambda: see lanes::dot_step.
template <int R, int M>
[[gnu::always_inline]] inline void step(Vector (&acc)[R][M], const Half* w, std::size_t w_stride, const Half* x, std::size_t x_stride) {
  Sixteen rows[R];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) rows[r] = sixteen(w + r * w_stride);
#pragma GCC unroll 2
  for (int m = 0; m < M; ++m) {
    const Sixteen of_x = sixteen(x + m * x_stride);
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) acc[r][m] = fma(rows[r], of_x, acc[r][m]);
  }
}

template <int R, int M>
void block(const Half* w, std::size_t w_stride, const Half* x, std::size_t x_stride, std::size_t n, float* y, std::size_t y_stride) {
  constexpr std::size_t kLanes = lanes::kLanes;
  Vector acc[R][M];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int m = 0; m < M; ++m) acc[r][m] = Vector::zero();
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int r = 0; r < R; ++r) lanes::prefetch(w + (R + r) * w_stride, i * sizeof(Half));
    step(acc, w + i, w_stride, x + i, x_stride);
  }
  if (i < n) {
    Half w_rest[R][kLanes] = {}, x_rest[M][kLanes] = {};
    for (std::size_t k = 0; i + k < n; ++k) {
      for (int r = 0; r < R; ++r) w_rest[r][k] = w[r * w_stride + i + k];
      for (int m = 0; m < M; ++m) x_rest[m][k] = x[m * x_stride + i + k];
    }
    step(acc, w_rest[0], kLanes, x_rest[0], kLanes);
  }
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int m = 0; m < M; ++m) y[m * y_stride + r] = acc[r][m].sum();
}

template <int R>
void rows(const Half* w, std::size_t w_stride, const Rows<Half>& x, float* y, std::size_t y_stride) {
  std::size_t m = 0;
  for (; m + 2 <= x.count; m += 2) block<R, 2>(w, w_stride, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
  for (; m < x.count; ++m) block<R, 1>(w, w_stride, x.data + m * x.stride, x.stride, x.columns, y + m * y_stride, y_stride);
}

void dots(Rows<Half> w, Rows<Half> x, float* y, std::size_t y_stride) {
  std::size_t r = 0;
  for (; r + 2 <= w.count; r += 2) rows<2>(w.data + r * w.stride, w.stride, x, y + r, y_stride);
  for (; r < w.count; ++r) rows<1>(w.data + r * w.stride, w.stride, x, y + r, y_stride);
}

}  // namespace

KernelSet with_float16(KernelSet set, bool multiplies_into_float32) {
  set.add_halves = add;
  set.relu_halves = relu;
  set.half_sums = half_sums;
  if (multiplies_into_float32) set.dots_halves = dots;
  return set;
}

}  // namespace vitro
