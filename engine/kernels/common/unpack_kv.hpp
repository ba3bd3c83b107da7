// Rows of KV pools as float32: the bits of read_kv_row() (quant/kv_rows.hpp). Like lanes.hpp, which has the rules, written once over a
// target's V.
#pragma once
#include "engine/kernels/common/block_rows.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro::unpack_kv {

using block_rows::load;
using lanes::kLanes;
using lanes::SignedBytes;
using Wide [[gnu::vector_size(32)]] = std::uint16_t;

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
void keys8(const std::byte* in, std::size_t dim, float* out) {
  float scale, min;
  __builtin_memcpy(&scale, in + dim, sizeof scale);
  __builtin_memcpy(&min, in + dim + sizeof scale, sizeof min);
  const V middle = V::all(128.0f), scales = V::all(scale), minima = V::all(min);
  each_byte<V>(in, dim, out, [&](const std::byte* p) __attribute__((always_inline)) {
    return (V::floats(SignedBytes(load(p))) + middle) * scales + minima;
  });
}

// Scale and zero of eight groups are converted together.
template <class V>
void keys4(const std::byte* in, std::size_t dim, float* out) {
  const std::size_t groups = (dim + kKeyGroup - 1) / kKeyGroup;
  const std::byte* scales = in + groups * kKeyGroupCodes;
  for (std::size_t first = 0; first < groups; first += kLanes / 2) {
    const std::size_t n = groups - first < kLanes / 2 ? groups - first : kLanes / 2;
    Half halves[kLanes] = {};
    __builtin_memcpy(halves, scales + first * kKeyGroupScales, n * kKeyGroupScales);
    float of[kLanes];
    V::load(halves).store(of);
    for (std::size_t g = 0; g < n; ++g, in += kKeyGroupCodes) {
      V low, high;
      V::nibbles(in, V::all(of[2 * g]), low, high);
      low = low + V::all(of[2 * g + 1]);
      high = high + V::all(of[2 * g + 1]);
      const std::size_t at = (first + g) * kKeyGroup, rest = dim - at;
      if (rest >= kKeyGroup) {
        low.store(out + at);
        high.store(out + at + kLanes);
      } else {
        lanes::store_tail(low, out + at, rest < kLanes ? rest : kLanes);
        if (rest > kLanes) lanes::store_tail(high, out + at + kLanes, rest - kLanes);
      }
    }
  }
}

// A code of e5m2 is the upper half of a binary16.
template <class V>
void e5m2(const std::byte* in, std::size_t n, float* out) {
  each_byte<V>(in, n, out, [](const std::byte* p) __attribute__((always_inline)) {
    const Wide wide = __builtin_convertvector(load(p), Wide) << 8;
    Half halves[kLanes];
    __builtin_memcpy(halves, &wide, sizeof halves);
    return V::load(halves);
  });
}

// Exponent and fraction of e4m3 make a binary16 that is 2^8 times too small, subnormal numbers too. The one code of no number becomes such.
template <class V>
void e4m3(const std::byte* in, std::size_t n, float* out) {
  using Signed [[gnu::vector_size(32)]] = std::int16_t;
  const V factor = V::all(256.0f);
  each_byte<V>(in, n, out, [&](const std::byte* p) __attribute__((always_inline)) {
    const Signed high = Signed(__builtin_convertvector(load(p), Wide) << 8);  // the sign stands where that of a binary16 is
    const Wide placed = Wide(high >> 1) & 0xbf80;
    const Wide wide = placed | (Wide((placed & 0x3f80) == 0x3f80) & 0x7e00);
    Half halves[kLanes];
    __builtin_memcpy(halves, &wide, sizeof halves);
    return V::load(halves) * factor;
  });
}

template <class V>
void rows(Format format, std::uint32_t which, const std::byte* in, std::size_t count, std::size_t dim, float* out) {
  const auto each = [&](std::size_t bytes, auto unpack) __attribute__((always_inline)) {
    for (std::size_t r = 0; r < count; ++r, in += bytes, out += dim) unpack(in, dim, out);
  };
  if (which == 0) {
    if (format.bits == 8) return each(dim + kKeyScales, keys8<V>);
    return each((dim + kKeyGroup - 1) / kKeyGroup * (kKeyGroupCodes + kKeyGroupScales), keys4<V>);
  }
  if (format.values == Format::Values::e5m2) return e5m2<V>(in, count * dim, out);  // rows of values follow each other
  e4m3<V>(in, count * dim, out);
}

}  // namespace vitro::unpack_kv
