// The inner loops over 16 float lanes, written once. A target supplies `V`, a vector of 16 floats, in an unnamed
// namespace: every instantiation then has internal linkage, and code compiled with one target's flags can never be
// linked into another's (which is also why nothing here calls an inline function of the standard library).
//
// portable/portable.cpp has the plainest V and shows what one must offer; kRows x kBatch is its register block of dots().
#pragma once
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro::lanes {

inline constexpr std::size_t kLanes = 16;
using SignedBytes [[gnu::vector_size(16)]] = std::int8_t;  // of the compiler's own, for V::floats()
// Adding it rounds a float of magnitude below 2^22 to an integer (nearest even), which stands in the low mantissa bits.
inline constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23

// Into the second-level cache. The address is never dereferenced: it may lie behind the end.
[[gnu::always_inline]] static inline void prefetch(std::uintptr_t p) { __builtin_prefetch(reinterpret_cast<const void*>(p), 0, 2); }
[[gnu::always_inline]] static inline void prefetch(const void* p, std::size_t ahead) {
  prefetch(reinterpret_cast<std::uintptr_t>(p) + ahead);
}
// Of a stream that is read once, into the nearest cache: the lines of so many bytes.
[[gnu::always_inline]] static inline void prefetch_near(const std::byte* p, std::size_t bytes, std::size_t ahead) {
  const auto begin = reinterpret_cast<std::uintptr_t>(p) + ahead;
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(reinterpret_cast<const void*>(begin + line), 0, 3);
}

template <class V, class T>
V load_tail(const T* p, std::size_t n) {
  T padded[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) padded[i] = p[i];
  return V::load(padded);
}

template <class V, class T>
void store_tail(V v, T* p, std::size_t n) {
  T padded[kLanes];
  v.store(padded);
  for (std::size_t i = 0; i < n; ++i) p[i] = padded[i];
}

// Calls f(i) for each full vector, then tail(i, rest).
template <class F, class G>
[[gnu::always_inline]] inline void for_lanes(std::size_t n, F f, G tail) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i);
  if (i < n) tail(i, n - i);
}

// y[i] = f(vectors at i), where `in` are arrays of n floats or halves.
template <class V, class F, class Out, class... In>
[[gnu::always_inline]] inline void map(std::size_t n, Out* y, F f, const In*... in) {
  for_lanes(
      n, [&](std::size_t i) { f(V::load(in + i)...).store(y + i); },
      [&](std::size_t i, std::size_t rest) { store_tail(f(load_tail<V>(in + i, rest)...), y + i, rest); });
}

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor polynomial of degree 7 in r (truncation below 2^-27 relative), times
// 2^n. 0 below -87; inputs above 88 count as 88. Error measured over all floats: see docs/design/kernels.md.
template <class V>
[[gnu::always_inline]] inline V exp(V x) {
  constexpr float kLow = -87.0f, kHigh = 88.0f;
  const V clamped = select_less(x, V::all(kLow), V::all(kLow), select_less(V::all(kHigh), x, V::all(kHigh), x));
  const V shifted = fma(clamped, V::all(0x1.715476p+0f), V::all(kRoundMagic));
  const V n = shifted - V::all(kRoundMagic);
  V r = fma(n, V::all(-0x1.62e400p-1f), clamped);  // ln 2 in two parts, the first with 9 trailing zero bits: n * part is exact
  r = fma(n, V::all(-0x1.7f7d1cp-20f), r);
  constexpr float kInverseFactorials[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  V p = V::all(1.0f / 5040);
  for (const float c : kInverseFactorials) p = fma(p, r, V::all(c));
  return select_less(x, V::all(kLow), V::zero(), p * shifted.power_of_two());
}

template <class V>
float softmax(float* s, std::size_t n, float scale) {
  V high = V::all(-__builtin_inff());
  map<V>(n, s, [&](V v) { return v * V::all(scale); }, s);
  for_lanes(
      n, [&](std::size_t i) { high = larger(high, V::load(s + i)); },
      [&](std::size_t i, std::size_t rest) {
        for (; rest > 0; --rest, ++i) high = larger(high, V::all(s[i]));
      });
  const float top = high.largest();
  map<V>(n, s, [&](V v) { return exp(v - V::all(top)); }, s);
  V total = V::zero();
  for_lanes(
      n, [&](std::size_t i) { total = total + V::load(s + i); },
      [&](std::size_t i, std::size_t rest) { total = total + load_tail<V>(s + i, rest); });
  return total.sum();
}

template <class V>
void activate(Activation act, const float* gate, const float* up, std::size_t n, float* h) {
  const V zero = V::zero(), one = V::all(1.0f);
  const auto relu = [&](V g) { return select_less(zero, g, g, zero); };
  switch (act) {
    case Activation::silu:
      return map<V>(n, h, [&](V g, V u) { return g / (one + exp(zero - g)) * u; }, gate, up);
    case Activation::relu:
      return map<V>(n, h, [&](V g, V u) { return relu(g) * u; }, gate, up);
    case Activation::relu_squared:
      return map<V>(n, h, [&](V g, V u) { return relu(g) * relu(g) * u; }, gate, up);
    // The tanh form, as g / (1 + e^(-2 t)) with t = sqrt(2 / pi) (g + 0.044715 g^3).
    case Activation::gelu:
      return map<V>(
          n, h,
          [&](V g, V u) {
            const V cubic = fma(g * g * g, V::all(0.044715f), g);
            return g / (one + exp(cubic * V::all(-1.5957691216f))) * u;
          },
          gate, up);
  }
}

template <class V>
void scale(const float* x, float factor, const float* weight, std::size_t n, float* y) {
  map<V>(n, y, [&](V a, V w) { return a * V::all(factor) * w; }, x, weight);
}

template <class V>
void add_halves(const Half* a, const Half* b, std::size_t n, Half* y) {
  map<V>(n, y, [](V u, V v) { return u + v; }, a, b);
}

template <class V>
void relu_halves(const Half* gate, const Half* up, std::size_t n, Half* h) {
  map<V>(n, h, [](V g, V u) { return select_less(V::zero(), g, g, V::zero()) * u; }, gate, up);
}

template <class V, class From, class To>
void convert(const From* x, std::size_t n, To* y) {
  for_lanes(
      n, [&](std::size_t i) { V::load(x + i).store(y + i); },
      [&](std::size_t i, std::size_t rest) { store_tail(load_tail<V>(x + i, rest), y + i, rest); });
}

// Of 16 blocks of int8 activations: what their activations are multiplied by, and what a quant is worth. One division for all: a core
// that executes in order waits for each.
template <class V>
void block_scales(const float (&largest)[kLanes], float (&inverses)[kLanes], float (&units)[kLanes]) {
  const V zero = V::zero(), full = V::all(127.0f), raw = V::load(largest), amax = select_less(raw, V::all(0x1p-100f), zero, raw);
  select_less(zero, amax, full / amax, zero).store(inverses);
  (amax / full).store(units);
}

template <class V, int Block = 32>
void quantise(const float* __restrict x, std::size_t blocks, std::size_t stride, std::int8_t* __restrict quants, float* __restrict scales,
              std::int32_t* __restrict corrections) {
  for (std::size_t first = 0; first < blocks; first += kLanes) {
    const std::size_t count = blocks - first < kLanes ? blocks - first : kLanes;
    float largest[kLanes] = {}, inverses[kLanes], units[kLanes];
#pragma GCC unroll 4
    for (std::size_t b = 0; b < count; ++b) {
      V most = V::load(x + b * Block).magnitude();
      for (int i = kLanes; i < Block; i += kLanes) most = larger(most, V::load(x + b * Block + i).magnitude());
      largest[b] = most.largest();
    }
    block_scales<V>(largest, inverses, units);
#pragma GCC unroll 2
    for (std::size_t b = 0; b < count; ++b, x += Block, quants += Block * stride, scales += stride, corrections += stride) {
      const V inverse = V::all(inverses[b]), magic = V::all(kRoundMagic);
      std::int32_t sum = 0;
      for (int i = 0; i < Block; i += 2 * kLanes) {
        sum += store_bytes(V::load(x + i) * inverse + magic, V::load(x + i + kLanes) * inverse + magic, quants + i);
      }
      *scales = units[b];
      *corrections = -8 * sum;
    }
  }
}

template <class V>
void quantise_blocks(const float* x, std::size_t block, std::size_t blocks, std::size_t stride, std::int8_t* quants, float* scales,
                     std::int32_t* corrections) {
  if (block == 128) return quantise<V, 128>(x, blocks, stride, quants, scales, corrections);
  if (block == 64) return quantise<V, 64>(x, blocks, stride, quants, scales, corrections);
  quantise<V>(x, blocks, stride, quants, scales, corrections);
}

}  // namespace vitro::lanes
