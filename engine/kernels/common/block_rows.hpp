// Rows of block formats as float32, for products of floats: the bits of dequantise_row() and dequantise_nibbles() (quant/blocks.hpp), in
// the order of operations that the format has. A target's V (lanes.hpp) makes floats of 16 bytes.
#pragma once
#include "engine/kernels/common/lanes.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/codebook_blocks.hpp"
#include "engine/quant/outlier_rows.hpp"

namespace vitro::block_rows {

using lanes::SignedBytes;
using Bytes [[gnu::vector_size(16)]] = std::uint8_t;

[[gnu::always_inline]] static inline int byte_at(const std::byte* p, int i) { return static_cast<int>(p[i]); }

[[gnu::always_inline]] static inline float half_at(const std::byte* p) {
  return half_to_float(static_cast<Half>(byte_at(p, 0) | byte_at(p, 1) << 8));
}

[[gnu::always_inline]] static inline Bytes load(const std::byte* p) {
  Bytes bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return bytes;
}

template <class V>
[[gnu::always_inline]] inline void q4_0(float d, const std::byte* nibbles, float* out) {
  V low, high;
  V::nibbles(nibbles, V::all(d), low, high);
  low.store(out);
  high.store(out + 16);
}

template <class V>
[[gnu::always_inline]] inline void q8_0(const std::byte* in, float* out) {
  const V d = V::all(half_at(in));
  for (int i = 0; i < 32; i += 16) (d * V::floats(SignedBytes(load(in + 2 + i)))).store(out + i);
}

// The 6-bit scale and minimum of group j (of 8) from the 12 packed bytes of a q4_k or q5_k block.
struct ScaleMin {
  int scale, min;
};
[[gnu::always_inline]] static inline ScaleMin scale_min(const std::byte* p, int j) {
  if (j < 4) return {byte_at(p, j) & 63, byte_at(p, j + 4) & 63};
  return {(byte_at(p, j + 4) & 15) | byte_at(p, j - 4) >> 6 << 4, byte_at(p, j + 4) >> 4 | byte_at(p, j) >> 6 << 4};
}

// q4_k, or q5_k, whose 32 fifth bits of each group stand in a bit of 32 bytes of their own.
template <class V, bool Fifth>
[[gnu::always_inline]] inline void k45(const std::byte* in, float* out) {
  const float d = half_at(in), dmin = half_at(in + 2);
  const std::byte *fifth = in + 16, *nibbles = in + (Fifth ? 48 : 16);
#pragma GCC unroll 8
  for (int group = 0; group < 8; ++group) {  // shifts of bytes are cheap by constants alone
    const auto [scale, min] = scale_min(in + 4, group);
    const V step = V::all(d * static_cast<float>(scale)), offset = V::all(dmin * static_cast<float>(min));
    for (int l = 0; l < 32; l += 16, out += 16) {
      Bytes q = load(nibbles + group / 2 * 32 + l) >> group % 2 * 4 & 15;
      if (Fifth) q |= (load(fifth + l) >> group & 1) << 4;
      (step * V::floats(SignedBytes(q)) - offset).store(out);
    }
  }
}

// Of each half of 128 elements, quarter k takes its low bits from byte 32 (k & 1) + l, nibble k / 2, and its high ones from pair k of
// byte l.
template <class V>
[[gnu::always_inline]] inline void q6_k(const std::byte* in, float* out) {
  const std::byte *low = in, *high = in + 128, *scales = in + 192;
  const float d = half_at(in + 208);
#pragma GCC unroll 16
  for (int run = 0; run < 16; ++run, out += 16) {  // of 16 elements, with one scale
    const int half = run / 8, quarter = run % 8 / 2, first = run % 2 * 16;
    const Bytes bits = load(low + half * 64 + quarter % 2 * 32 + first) >> quarter / 2 * 4 & 15;
    const Bytes top = load(high + half * 32 + first) >> quarter * 2 & 3;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[run]));
    (V::all(scale) * V::floats(SignedBytes(bits | top << 4) - 32)).store(out);
  }
}

// All of a block is found before it is read again: by then its bytes are in the cache, and not on their way to it.
template <class V, Format kFormat>
[[gnu::always_inline]] inline void codebook_block(const std::byte* in, float* out) {
  using Codec = codebook::Codec<kFormat>;
  const float d = half_to_float(Codec::d(in)) * Codec::kUnit;
  alignas(16) std::uint64_t octets[32];
  for (int b = 0; b < codebook::kGroups; ++b) {
    const std::uint32_t marks = Codec::marks(in, b);
    Codec::octets(in, b, [&](int j, std::uint64_t entries) __attribute__((always_inline)) {
      octets[4 * b + j] = Codec::changed(entries, marks >> 8 * j & 255);
    });
  }
  for (int b = 0; b < codebook::kGroups; ++b) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, out += 16) {
      const V step = V::all(d * static_cast<float>(Codec::scale(in, b, 16 * half / Codec::kRun)));
      (step * V::floats(SignedBytes(load(reinterpret_cast<const std::byte*>(octets + 4 * b + 2 * half))))).store(out);
    }
  }
}

// Positions are below n (outlier_damage()).
template <class V>
[[gnu::always_inline]] inline void outlier_row(const std::byte* in, float* out, std::size_t n) {
  const OutlierRow at{n};
  const float scale = half_at(in + at.scale()), apart = half_at(in + at.outlier_scale());
  for (std::size_t k = 0; k < n; k += 32) q4_0<V>(scale, in + at.nibbles() + k / 2, out + k);
  for (std::size_t j = 0; j < at.outliers(); ++j) {
    const std::byte* p = in + at.positions() + 2 * j;
    out[byte_at(p, 0) | byte_at(p, 1) << 8] = apart * static_cast<float>(static_cast<std::int8_t>(in[at.values() + j]));
  }
}

template <class V>
void dequantise(Format format, const std::byte* in, float* out, std::size_t n) {
  const float* const end = out + n;
  if (format == Format::q4_0) {
    for (; out != end; in += 18, out += 32) q4_0<V>(half_at(in), in + 2, out);
  } else if (format == Format::q8_0) {
    for (; out != end; in += 34, out += 32) q8_0<V>(in, out);
  } else if (format == Format::q4_k) {
    for (; out != end; in += 144, out += 256) k45<V, false>(in, out);
  } else if (format == Format::q5_k) {
    for (; out != end; in += 176, out += 256) k45<V, true>(in, out);
  } else if (format == Format::q6_k) {
    for (; out != end; in += 210, out += 256) q6_k<V>(in, out);
  } else if (format.is_codebook()) {
    codebook::with_format(format, [&]<Format kFormat>() __attribute__((always_inline)) {
      for (; out != end; in += kFormat.block_bytes(), out += 256) codebook_block<V, kFormat>(in, out);
    });
  } else if (format == Format::w4_outliers) {
    outlier_row<V>(in, out, n);
  } else {
    dequantise_row(format, in, out, n);
  }
}

template <class V>
void dequantise_nibbles(const std::byte* nibbles, const std::byte* scales, float* out, std::size_t n) {
  for (const float* const end = out + n; out != end; nibbles += 16, scales += 2, out += 32) q4_0<V>(half_at(scales), nibbles, out);
}

}  // namespace vitro::block_rows
