// Rows of KV pools from float32: the bits of write_kv_row() (quant/kv_rows.hpp), which defines them. Like lanes.hpp, which has the rules,
// written once over a target's V; fp8 is made by integers in its widest registers.
#pragma once
#include "engine/kernels/common/lanes.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro::pack_kv {

using lanes::kLanes;
using lanes::kRoundMagic;

inline constexpr std::size_t kStep = 2 * kLanes;  // what store_bytes() takes
static_assert(kStep == kKeyGroup && kLanes == kKeyGroupCodes);
// store_bytes() has signed bytes: codes from 0 to 255 go through it less 128, whose bit is turned back here.
using StepBytes [[gnu::vector_size(kStep)]] = std::uint8_t;

[[gnu::always_inline]] static inline void turn_high_bits(std::byte* bytes) {
  StepBytes all;
  __builtin_memcpy(&all, bytes, kStep);
  all ^= 0x80;
  __builtin_memcpy(bytes, &all, kStep);
}

// Calls f(kStep elements, where they begin, how many of them count) for steps that cover [0, n): the last one overlaps the one before. Of
// fewer than kStep elements the first stands in place of what is missing.
template <class F>
[[gnu::always_inline]] inline void each_step(const float* x, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + kStep <= n; i += kStep) f(x + i, i, kStep);
  if (i == n) return;
  if (n > kStep) return f(x + n - kStep, n - kStep, kStep);
  float padded[kStep];
  for (i = 0; i < kStep; ++i) padded[i] = x[i < n ? i : 0];
  f(static_cast<const float*>(padded), std::size_t{0}, n);
}

// The same for rows of a byte for each element: f(kStep elements, kStep bytes).
template <class F>
[[gnu::always_inline]] inline void make_bytes(const float* x, std::size_t n, std::byte* out, F f) {
  each_step(x, n, [&](const float* from, std::size_t at, std::size_t count) __attribute__((always_inline)) {
    if (count == kStep) return f(from, out + at);
    std::byte bytes[kStep];
    f(from, bytes);
    for (std::size_t i = 0; i < count; ++i) out[i] = bytes[i];
  });
}

// The next whole number below, of magnitudes below 2^22.
template <class V>
[[gnu::always_inline]] inline V whole_below(V x) {
  const V near = (x + V::all(kRoundMagic)) - V::all(kRoundMagic);
  return select_less(x, near, near - V::all(1.0f), near);
}

// round((x - zero) / scale) from `least` to `most`; no number becomes the least. Without a scale: 0.
template <class V>
[[gnu::always_inline]] inline V codes(V x, V scale, V zero, float least, float most) {
  const V half = V::all(0.5f), low = V::all(least), high = V::all(most);
  V steps = select_less(V::zero(), scale, (x - zero) / scale + half, half);
  steps = select_less(low, steps, steps, low);
  return whole_below(select_less(steps, high, steps, high));
}

// Least and greatest of the numbers met; what is no number is neither. Zeros count as +0.
template <class V>
struct Reach {
  V low = V::all(__builtin_inff()), high = V::all(-__builtin_inff());

  [[gnu::always_inline]] void meet(const float* step) {
    for (std::size_t i = 0; i < kStep; i += kLanes) {
      const V x = V::load(step + i);
      low = select_less(x, low, x, low);
      high = select_less(high, x, x, high);
    }
  }
  // 0 and 0 where no number was met.
  [[gnu::always_inline]] void ends(float& least, float& most) const {
    least = 0.0f - (V::zero() - low).largest();
    most = high.largest() + 0.0f;
    if (least > most) least = most = 0.0f;
  }
};

template <class V>
void key8(const float* x, std::size_t dim, std::byte* out) {
  Reach<V> reach;
  each_step(x, dim, [&](const float* from, std::size_t, std::size_t) __attribute__((always_inline)) { reach.meet(from); });
  float of[2], most;  // as they stand behind the codes
  reach.ends(of[1], most);
  of[0] = (most - of[1]) / 255.0f;
  const V scale = V::all(of[0]), zero = V::all(of[1]), magic = V::all(kRoundMagic - 128.0f);
  make_bytes(x, dim, out, [&](const float* from, std::byte* to) __attribute__((always_inline)) {
    const V first = codes(V::load(from), scale, zero, 0.0f, 255.0f), second = codes(V::load(from + kLanes), scale, zero, 0.0f, 255.0f);
    store_bytes(first + magic, second + magic, reinterpret_cast<std::int8_t*>(to));
  });
  __builtin_memcpy(out + dim, of, sizeof of);
}

// Scales and zeros of up to 16 groups, by their ends.
template <class V>
void group_scales(const float (&lows)[kLanes], const float (&highs)[kLanes], Half (&scales)[kLanes], Half (&zeros)[kLanes]) {
  const auto within = [](V x) __attribute__((always_inline)) {  // what binary16 reaches
    const V most = V::all(65504.0f), least = V::all(-65504.0f);
    return select_less(x, least, least, select_less(most, x, most, x));
  };
  const V low = within(V::load(lows));
  ((within(V::load(highs)) - low) / V::all(15.0f)).store(scales);
  (low + V::all(8.0f) * V::load(scales)).store(zeros);
}

// Codes of a group, those of elements i and i + 16 in a lane, as store_bytes() takes them.
template <class V>
[[gnu::always_inline]] inline V both_codes(const float* x, V scale, V zero) {
  const V first = codes(V::load(x), scale, zero, -8.0f, 7.0f), second = codes(V::load(x + kLanes), scale, zero, -8.0f, 7.0f);
  return fma(second, V::all(16.0f), first) + V::all(kRoundMagic + 8.0f);  // (first + 8) + 16 * (second + 8) - 128
}

template <class V>
void key4(const float* x, std::size_t dim, std::byte* out) {
  const std::size_t groups = (dim + kKeyGroup - 1) / kKeyGroup, rest = dim % kKeyGroup;
  float last[kStep];  // the last group, where it is a part of one
  for (std::size_t i = 0; rest > 0 && i < kStep; ++i) last[i] = x[(groups - 1) * kKeyGroup + (i < rest ? i : 0)];
  const auto group = [&](std::size_t g) __attribute__((always_inline)) {
    return rest > 0 && g + 1 == groups ? static_cast<const float*>(last) : x + g * kKeyGroup;
  };
  for (std::size_t first = 0; first < groups; first += kLanes) {
    const std::size_t n = groups - first < kLanes ? groups - first : kLanes;
    float lows[kLanes] = {}, highs[kLanes] = {}, scale_of[kLanes], zero_of[kLanes];
    Half scales[kLanes], zeros[kLanes];
    for (std::size_t g = 0; g < n; ++g) {
      Reach<V> reach;
      reach.meet(group(first + g));
      reach.ends(lows[g], highs[g]);
    }
    group_scales<V>(lows, highs, scales, zeros);
    V::load(scales).store(scale_of);
    V::load(zeros).store(zero_of);
    std::byte* const behind = out + groups * kKeyGroupCodes + first * kKeyGroupScales;
    for (std::size_t g = 0; g < n; g += 2) {
      const std::size_t second = g + 1 < n ? g + 1 : g;
      std::byte bytes[kStep];
      store_bytes(both_codes(group(first + g), V::all(scale_of[g]), V::all(zero_of[g])),
                  both_codes(group(first + second), V::all(scale_of[second]), V::all(zero_of[second])),
                  reinterpret_cast<std::int8_t*>(bytes));
      turn_high_bits(bytes);
      __builtin_memcpy(out + (first + g) * kKeyGroupCodes, bytes, (second - g + 1) * kKeyGroupCodes);
    }
    for (std::size_t g = 0; g < n; ++g) {
      __builtin_memcpy(behind + g * kKeyGroupScales, scales + g, sizeof(Half));
      __builtin_memcpy(behind + g * kKeyGroupScales + sizeof(Half), zeros + g, sizeof(Half));
    }
  }
  std::byte* const codes_of_last = out + (groups - 1) * kKeyGroupCodes;
  for (std::size_t i = rest; rest > 0 && i < kKeyGroup; ++i) codes_of_last[i % kLanes] &= i < kLanes ? std::byte{0xf0} : std::byte{0x0f};
}

// float_to_fp8() of quant/fp8.hpp, as integers that store_bytes() takes for floats: codes less 128.
template <class T, int FractionBits, int Bias>
struct Fp8 {
  static constexpr std::size_t kBytes = sizeof(typename T::Wide) < 16 ? 16 : sizeof(typename T::Wide);
  using Ints [[gnu::vector_size(kBytes)]] = std::int32_t;
  using Floats [[gnu::vector_size(kBytes)]] = float;

  // mask ? yes : no
  [[gnu::always_inline]] static void choose(Ints& out, const Ints& mask, const Ints& yes) { out = (mask & yes) | (~mask & out); }

  [[gnu::always_inline]] static void make(const float* x, std::int32_t largest, float* out) {
    constexpr std::int32_t kCut = 23 - FractionBits, kRebias = 127 - Bias, kInfinite = 0x7f800000;
    constexpr std::int32_t kUnit = (23 - (Bias - 1 + FractionBits) + 127) << 23;  // a float whose last bit is worth the smallest code
    Ints bits;
    __builtin_memcpy(&bits, x, kBytes);
    const Ints magnitude = bits & 0x7fffffff;
    Ints finite = magnitude;
    choose(finite, magnitude > kInfinite, magnitude & 0);
    // Cut to nearest, ties to even; below the normal codes an addition rounds so.
    Ints code = ((finite + ((1 << (kCut - 1)) - 1) + ((finite >> kCut) & 1)) >> kCut) - (kRebias << FractionBits);
    choose(code, code > largest, (code & 0) + largest);
    const Floats unit = (Floats)((code & 0) + kUnit);
    choose(code, finite < ((kRebias + 1) << 23), (Ints)((Floats)finite + unit) - kUnit);
    choose(code, magnitude > kInfinite, (code & 0) + 0x7f);
    code = (code | ((bits >> 24) & 0x80)) + (0x4b400000 - 128);  // kRoundMagic's bits
    __builtin_memcpy(out, &code, kBytes);
  }

  static void row(const float* x, std::size_t n, std::int32_t largest, std::byte* out) {
    using V = typename T::V;
    make_bytes(x, n, out, [&](const float* from, std::byte* to) __attribute__((always_inline)) {
      float codes[kStep];
      for (std::size_t i = 0; i < kStep; i += kBytes / sizeof(float)) make(from + i, largest, codes + i);
      store_bytes(V::load(codes), V::load(codes + kLanes), reinterpret_cast<std::int8_t*>(to));
      turn_high_bits(to);
    });
  }
};

// One row. Requires: format.is_for_kv().
template <class T>
void row(Format format, std::uint32_t which, const float* x, std::size_t dim, std::byte* out) {
  using V = typename T::V;
  if (which == 0) return format.bits == 8 ? key8<V>(x, dim, out) : key4<V>(x, dim, out);
  if (format.values == Format::Values::e5m2) return Fp8<T, 2, 15>::row(x, dim, 0x7b, out);
  Fp8<T, 3, 7>::row(x, dim, 0x7e, out);
}

}  // namespace vitro::pack_kv
