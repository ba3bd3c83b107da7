// The block formats of weights: sizes, exact dequantisation, and quantisation of the simple ones. Byte layouts are those
// of GGUF files, little-endian; docs/reference/formats.md has them in one table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/units.hpp"
#include "engine/quant/float16.hpp"
#include "engine/tensor/format.hpp"
#include "engine/tensor/layout.hpp"

namespace vitro {

inline constexpr std::size_t kBlock = 32;        // elements of a q4_0, q8_0, iq4_nl, fp4 or nf4 block, and of 16 bytes of q4_nibbles
inline constexpr std::size_t kSuperBlock = 256;  // elements of a block of K-quants and codebooks

[[gnu::always_inline]] constexpr std::size_t block_elements(Format format) { return format.block; }  // 1 for plain formats
[[gnu::always_inline]] constexpr std::size_t block_bytes(Format format) { return format.block_bytes(); }

// Bytes of one row; in layouts of tiles.hpp, which hold a row's one scale once, and in strips its share of a group of rows.
// Requires: columns is a multiple of block_elements(format).
Bytes row_bytes(Format format, std::uint64_t columns, Layout layout = Layout::rows);

// The elements that can be read without the rest of their row: those of a block, or all of them.
[[gnu::always_inline]] constexpr std::size_t run_elements(Format format, std::size_t columns) {
  return format.has_outliers() ? columns : block_elements(format);
}

// Writes n floats. Each is the exact product that the format defines, rounded once per operation in the format's own
// order, so every target gives the same bits. Requires: n is a multiple of block_elements, and with outliers a whole row; format is neither
// index32 nor q4_nibbles. `in` needs no alignment.
void dequantise_row(Format format, const std::byte* in, float* out, std::size_t n);

// A row of q4_0 as nibbles [n / 2 bytes] and its scales [n / 32 halves], and the bits that dequantise_row() makes of the two
// together. Requires: n is a multiple of 32. Neither side needs alignment.
void split_q4_0(const std::byte* row, std::size_t n, std::byte* nibbles, std::byte* scales);
void dequantise_nibbles(const std::byte* nibbles, const std::byte* scales, float* out, std::size_t n);

// Formats f32, f16, bf16, q8_0, q4_0: bit-equal to the `gguf` Python package (0.19) for finite input. All other formats of
// group_formats.hpp: the search of code_search.hpp. q4_k: that of q4_k.hpp. w4_outliers: outlier_rows.hpp.
// Requires: can_quantise(format), n a multiple of block_elements, and a whole row where the format has one scale for it.
bool can_quantise(Format format);
void quantise_row(Format format, const float* in, std::byte* out, std::size_t n);

}  // namespace vitro
