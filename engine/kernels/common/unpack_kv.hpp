// Rows of KV pools as float32: the bits of read_kv_row() (quant/kv_rows.hpp). Like lanes.hpp, which has the rules, written once over a
// target's V.
#pragma once
#include "engine/kernels/common/block_rows.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro::unpack_kv {

using block_rows::load;
using lanes::kLanes;
using lanes::SignedBytes;

// Calls f(i) for vectors that cover [0, n): the last one overlaps the one before, whose elements it makes again. Requires: n >= 16.
template <class F>
[[gnu::always_inline]] inline void cover(std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i);
  if (i < n) f(n - kLanes);
}

// The same for rows of bytes, one for each element, of any length. f(bytes) makes a V of 16.
template <class V, class F>
[[gnu::always_inline]] inline void each_byte(const std::byte* in, std::size_t n, float* out, F f) {
  if (n >= kLanes) {
    cover(n, [&](std::size_t i) __attribute__((always_inline)) { f(in + i).store(out + i); });
  } else {
    std::byte padded[kLanes] = {};
    for (std::size_t i = 0; i < n; ++i) padded[i] = in[i];
    lanes::store_tail(f(padded), out, n);
  }
}

template <class V>
void keys8(const std::byte* in, std::size_t count, std::size_t dim, float* out) {
  const V middle = V::all(128.0f);
  for (std::size_t r = 0; r < count; ++r, in += dim + kKeyScales, out += dim) {
    float of[2];
    __builtin_memcpy(of, in + dim, sizeof of);
    const V scale = V::all(of[0]), min = V::all(of[1]);
    each_byte<V>(in, dim, out, [&](const std::byte* p) __attribute__((always_inline)) {
      return (V::floats(SignedBytes(load(p))) + middle) * scale + min;
    });
  }
}

// Scales and zeros of many groups are converted together, long before they are needed. code * scale has no more bits than a float.
template <class V>
void keys4(const std::byte* in, std::size_t count, std::size_t dim, float* out) {
  constexpr std::size_t kTogether = 64;
  const std::size_t groups = (dim + kKeyGroup - 1) / kKeyGroup, codes = groups * kKeyGroupCodes, bytes = codes + groups * kKeyGroupScales;
  Half halves[2 * kTogether] = {};
  float of[2 * kTogether];
  std::size_t row = 0, group = 0;  // of the first of those that pass together
  for (std::size_t left = count * groups; left > 0;) {
    const std::size_t n = left < kTogether ? left : kTogether;
    const auto each = [&](auto f) __attribute__((always_inline)) {
      std::size_t r = row, g = group;
      for (std::size_t i = 0; i < n; ++i) {
        f(i, in + r * bytes, r, g);
        if (++g == groups) ++r, g = 0;
      }
    };
    each([&](std::size_t i, const std::byte* key, std::size_t, std::size_t g) __attribute__((always_inline)) {
      __builtin_memcpy(halves + 2 * i, key + codes + g * kKeyGroupScales, kKeyGroupScales);
    });
    for (std::size_t i = 0; i < 2 * n; i += kLanes) V::load(halves + i).store(of + i);
    each([&](std::size_t i, const std::byte* key, std::size_t r, std::size_t g) __attribute__((always_inline)) {
      const auto both = load(key + g * kKeyGroupCodes);
      const V scale = V::all(of[2 * i]), zero = V::all(of[2 * i + 1]);
      const V low = fma(V::floats(SignedBytes(both & 15) - 8), scale, zero), high = fma(V::floats(SignedBytes(both >> 4) - 8), scale, zero);
      float* y = out + r * dim + g * kKeyGroup;
      const std::size_t rest = dim - g * kKeyGroup;
      if (rest >= kKeyGroup) {
        low.store(y);
        high.store(y + kLanes);
      } else {
        lanes::store_tail(low, y, rest < kLanes ? rest : kLanes);
        if (rest > kLanes) lanes::store_tail(high, y + kLanes, rest - kLanes);
      }
    });
    row += (group + n) / groups;
    group = (group + n) % groups;
    left -= n;
  }
}

// A code of e5m2 is the upper half of a binary16.
template <class V>
void e5m2(const std::byte* in, std::size_t n, float* out) {
  each_byte<V>(in, n, out, [](const std::byte* p) __attribute__((always_inline)) {
    return V::halves(SignedBytes(load(p)), SignedBytes{});
  });
}

// Exponent and fraction of e4m3 make a binary16 that is 2^8 times too small, subnormal numbers too. The code of no number becomes one.
template <class V>
void e4m3(const std::byte* in, std::size_t n, float* out) {
  const V factor = V::all(256.0f);
  each_byte<V>(in, n, out, [&](const std::byte* p) __attribute__((always_inline)) {
    const auto code = load(p), magnitude = code & 0x7f;
    const auto none = decltype(code)(magnitude == 0x7f) & 0x7e;
    return V::halves(SignedBytes((code & 0x80) | magnitude >> 1 | none), SignedBytes(code << 7)) * factor;
  });
}

template <class V>
void rows(Format format, std::uint32_t which, const std::byte* in, std::size_t count, std::size_t dim, float* out) {
  if (which == 0) return format.bits == 8 ? keys8<V>(in, count, dim, out) : keys4<V>(in, count, dim, out);
  if (format.values == Format::Values::e5m2) return e5m2<V>(in, count * dim, out);  // rows of values follow each other
  e4m3<V>(in, count * dim, out);
}

}  // namespace vitro::unpack_kv
