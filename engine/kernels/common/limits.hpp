// Loops that do nothing but what the hardware bounds: read memory, or multiply and add in registers. A kernel's speed is
// reported beside the best of them, measured in the same process. T::Wide is the target's widest register type.
#pragma once
#include "engine/kernels/common/tiles.hpp"

namespace vitro::limits {

// Keeps a loop's work from being optimised away.
template <class Mixed>
[[gnu::always_inline]] inline std::uint64_t folded(const Mixed& mixed) {
  std::uint64_t words[sizeof mixed / 8], all = 0;
  __builtin_memcpy(words, mixed, sizeof mixed);
  for (const std::uint64_t w : words) all ^= w;
  return all;
}

// Streams: the bytes are read from so many places at once, which spreads them over pages and DRAM banks. Prefetch: how
// far ahead of each stream a line is requested, 0 for not at all.
template <class T, int Streams, std::size_t Prefetch>
std::uint64_t read(const std::byte* data, std::size_t bytes) {
  using Wide = typename T::Wide;
  constexpr std::size_t kStep = 8 * sizeof(Wide);
  const std::size_t part = bytes / Streams / kStep * kStep;
  Wide mixed[Streams] = {};
  for (std::size_t at = 0; at < part; at += kStep) {
#pragma GCC unroll 8
    for (int s = 0; s < Streams; ++s) {
      const std::byte* p = data + static_cast<std::size_t>(s) * part + at;
      if constexpr (Prefetch > 0) {
        for (std::size_t line = 0; line < kStep; line += 64) {
          __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + Prefetch + line));
        }
      }
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kStep; i += sizeof(Wide)) {
        Wide v;
        __builtin_memcpy(&v, p + i, sizeof v);
        mixed[s] ^= v;
      }
    }
  }
  return folded(mixed);
}

// Rows that stand anywhere, `Together` at a time, a line of each in turn; what is left of a row or of their number is not read. Prefetch:
// into the second-level cache, so many bytes ahead in each row and, at its end, in the row that is read next in its place.
template <class T, std::size_t Together, std::size_t Prefetch>
std::uint64_t read_rows(const std::byte* const* rows, std::size_t count, std::size_t bytes) {
  using Wide = typename T::Wide;
  constexpr std::size_t kLine = 64, kWides = kLine / sizeof(Wide);
  Wide mixed[kWides] = {};
  for (std::size_t first = 0; first + Together <= count; first += Together) {
    const std::byte* const* const next = first + 2 * Together <= count ? rows + Together : rows;
    for (std::size_t at = 0; at + kLine <= bytes; at += kLine) {
      for (std::size_t r = 0; r < Together; ++r) {
        if constexpr (Prefetch > 0) {
          lanes::prefetch(at + Prefetch < bytes ? rows[r] + at + Prefetch : next[r] + (at + Prefetch - bytes), 0);
        }
#pragma GCC unroll 8
        for (std::size_t i = 0; i < kWides; ++i) {
          Wide v;
          __builtin_memcpy(&v, rows[r] + at + i * sizeof v, sizeof v);
          mixed[i] ^= v;
        }
      }
    }
    rows = next;
  }
  return folded(mixed);
}

// Loops over small arrays are unrolled so that the arrays live in registers: otherwise every step would also store.
inline constexpr int kChains = 16;  // independent accumulators, enough to cover the latency of two multipliers

// T::opaque keeps the compiler from seeing that all products are the same.
template <class T>
std::uint64_t int8_macs(std::size_t rounds) {
  const std::byte weights[64] = {};
  const std::int8_t x[4] = {1, 2, 3, 4};
  typename T::Ints acc[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) acc[i] = T::all(i);
  auto w = T::nibbles(weights).low;
  const auto four = T::four(x);
  for (std::size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      T::opaque(w);
      acc[i] = T::dot(acc[i], w, four);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) asm volatile("" ::"m"(acc[i]));
  return rounds * kChains * 64;
}

template <class V>
std::uint64_t float_macs(std::size_t rounds) {
  V acc[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) acc[i] = V::all(static_cast<float>(i));
  const V a = V::all(0.75f), b = V::all(0.5f);
  for (std::size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) acc[i] = fma(acc[i], a, b);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) asm volatile("" ::"m"(acc[i]));
  return rounds * kChains * 16;
}

}  // namespace vitro::limits
