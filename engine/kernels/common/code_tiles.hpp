// The int8 loop over tiled integer codes (the group formats), written once like tiles.hpp. Beside what that asks for, T has
//   Codes: 64 codes, 4 per row, that dot() takes as they are; codes(const std::byte*) loads, store(Codes, std::byte*) stores them
//   field(Codes, shift, mask): (byte >> shift) & mask, left for a negative shift; merge(Codes, Codes): or
//   no_codes(), spread(const std::byte*): byte r of 16 four times, in row r; add_plane(Codes, spread, half, plane): sets bit `plane`
//   of the code of column i where bit 4 half + i of the row's byte is set
//   zeros(const std::byte*, shift, mask) -> Ints of (byte >> shift) & mask, of 16 bytes; minus_product(Ints, Ints zeros, int32);
//   twice(Ints)
#pragma once
#include "engine/kernels/common/tiles.hpp"

namespace vitro::tiles {

inline constexpr std::size_t kLine = 64, kQuads = 8;  // bytes of 4 columns (a quad) of 16 rows, a byte each; quads of a chunk of 32 columns

// Where codes of `Stored` bits lie in a chunk: engine/quant/tiles.hpp has the layout.
template <class T, int Stored>
struct Fields {
  [[gnu::always_inline]] static inline auto quad(const std::byte* chunk, int j) {
    if constexpr (Stored == 8) return T::codes(chunk + kLine * j);
    if constexpr (Stored == 4) return T::field(T::codes(chunk + kLine * (j % 4)), j / 4 * 4, 15);
    if constexpr (Stored == 2) return T::field(T::codes(chunk + kLine * (j % 2)), j / 2 * 2, 3);
    if constexpr (Stored == 1) return T::field(T::codes(chunk), j, 1);
    if constexpr (Stored == 3) {
      const auto low = T::field(T::codes(chunk + kLine * (j % 2)), j / 2 * 2, 3);
      return T::merge(low, T::field(T::codes(chunk + 2 * kLine), j - 2, 4));
    }
  }
};

// Blocks are requested `ahead` of their use, each when the block so far before it is; what stands before a tile's blocks leaves a gap
// between them, which is requested here, as the tile begins.
[[gnu::always_inline]] inline void prefetch_lead(const std::byte* tile, std::size_t lead_bytes, std::size_t ahead) {
  for (std::size_t line = 0; line < lead_bytes; line += kLine) lanes::prefetch(tile + line, ahead);
}

// The zeros of a block of 16 rows, whose fields are in the tile's `lead`, those of rows behind the scales. Stored: form.stored_bits.
template <class T, int Stored>
[[gnu::always_inline]] inline typename T::Ints zeros_of(const CodeForm& form, const std::byte* lead, std::size_t block) {
  constexpr int kBits = Stored == 3 ? 4 : Stored;
  const std::size_t bit = block * kBits;
  if (form.row_scale && form.zero_point) return T::zeros(lead + 2 * kTileRows, 0, 255);
  return form.zero_point ? T::zeros(lead + bit / 8 * kTileRows, static_cast<int>(bit % 8), (1 << kBits) - 1) : T::all(form.zero);
}

// What takes a block's integers to its dot products: the zero times the sum of its activations, and the step.
template <class T>
[[gnu::always_inline]] inline typename T::Ints finish_codes(typename T::Ints ints, const CodeForm& form, typename T::Ints zeros,
                                                            std::int32_t sum) {
  if (form.step == 2) ints = T::twice(ints);
  return T::minus_product(ints, zeros, sum);
}

// One block's sums of codes times activations. Codes of eight bits lie as q - 128, which the sum of the activations makes good.
template <class T, int Stored, int M>
[[gnu::always_inline]] inline void add_codes(typename T::Ints (&ints)[M], const CodeForm& form, const std::byte* chunk,
                                             const std::int8_t* quants) {
  for (std::size_t c = 0; c < form.chunks(); ++c, chunk += Stored * kLine, quants += 32) {
    add_nibbles<T>(ints, [&](auto& sums) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int j = 0; j < int{kQuads}; ++j) {
        const auto codes = Fields<T, Stored>::quad(chunk, j);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) sums[m] = T::dot(sums[m], codes, T::four(quants + form.group * m + 4 * j));
      }
    });
  }
}
template <class T, int M>
[[gnu::always_inline]] inline void add_bytes(typename T::Ints (&ints)[M], const CodeForm& form, const std::byte* chunk,
                                             const std::int8_t* quants, const std::int32_t* corrections) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) ints[m] = T::all((T::kQuantsOffset - 128) / 8 * corrections[m]);
  for (std::size_t c = 0; c < form.chunks(); ++c, chunk += 8 * kLine, quants += 32) {
#pragma GCC unroll 8
    for (int j = 0; j < int{kQuads}; ++j) {
      const auto codes = T::quants(chunk + kLine * j);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) ints[m] = T::dot(ints[m], codes, T::four(quants + form.group * m + 4 * j));
    }
  }
}

// kRowScale: form.row_scale, for which the scales of all blocks are the tile's lead. kBytes: form.bits is 8, else that is what fewer bits
// are unpacked to.
template <class T, int Stored, int M, bool kRowScale = false, bool kBytes = false>
void code_pass(const CodeForm& form, const std::byte* w, const Int8Rows& x, std::size_t row, float* y, std::size_t y_stride) {
  using V = typename T::V;
  const std::size_t head = kRowScale ? 0 : form.head_bytes(), block = head + form.chunks() * Stored * kLine;
  const std::byte* const lead = w;
  const bool first = row == 0 && (Stored != 8 || kBytes);
  if (first) lanes::prefetch_near(w, form.lead_bytes(x.blocks), kPrefetchBytes);
  w += form.lead_bytes(x.blocks);
  V acc[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m] = V::zero();
  for (std::size_t b = 0, at = row; b < x.blocks; ++b, at += x.rows, w += block) {
    if (first) lanes::prefetch_near(w, block, kPrefetchBytes);
    typename T::Ints ints[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) ints[m] = T::all(0);
    const std::int8_t* quants = x.quants + form.group * at;
    if constexpr (kBytes) {
      add_bytes<T>(ints, form, w + head, quants, x.corrections + at);
    } else {
      add_codes<T, Stored>(ints, form, w + head, quants);
    }
    const typename T::Ints zeros = zeros_of<T, Stored>(form, lead, b);
    const V scale = V::load(reinterpret_cast<const Half*>(kRowScale ? lead : w));
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const typename T::Ints dots = finish_codes<T>(ints[m], form, zeros, x.corrections[at + m] / -8);
      acc[m] = fma(T::to_floats(dots), scale * V::all(x.scales[at + m]), acc[m]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) acc[m].store(y + (row + m) * y_stride);
}

template <class T, int Stored, bool kRowScale, bool kBytes>
void code_groups(const CodeForm& form, const std::byte* tiles, std::size_t groups, const Int8Rows& x, float* y, std::size_t y_stride) {
  for (std::size_t g = 0; g < groups; ++g, tiles += form.tile_bytes(x.blocks), y += kTileRows) {
    std::size_t m = 0;
    for (; m + T::kBatch <= x.rows; m += T::kBatch) code_pass<T, Stored, T::kBatch, kRowScale, kBytes>(form, tiles, x, m, y, y_stride);
    if constexpr (T::kBatch > 2) {
      for (; m + 2 <= x.rows; m += 2) code_pass<T, Stored, 2, kRowScale, kBytes>(form, tiles, x, m, y, y_stride);
    }
    for (; m < x.rows; ++m) code_pass<T, Stored, 1, kRowScale, kBytes>(form, tiles, x, m, y, y_stride);
  }
}
template <class T, int Stored, bool kBytes = false>
void code_groups(const CodeForm& form, const std::byte* tiles, std::size_t groups, const Int8Rows& x, float* y, std::size_t y_stride) {
  if (form.row_scale) return code_groups<T, Stored, true, kBytes>(form, tiles, groups, x, y, y_stride);
  code_groups<T, Stored, false, kBytes>(form, tiles, groups, x, y, y_stride);
}

template <class T>
void code_dots(const CodeForm& form, const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride) {
  switch (form.stored_bits) {
    case 1:
      return code_groups<T, 1>(form, tiles, groups, x, y, y_stride);
    case 2:
      return code_groups<T, 2>(form, tiles, groups, x, y, y_stride);
    case 3:
      return code_groups<T, 3>(form, tiles, groups, x, y, y_stride);
    case 4:
      return code_groups<T, 4>(form, tiles, groups, x, y, y_stride);
    default:
      if (form.bits == 8) return code_groups<T, 8, true>(form, tiles, groups, x, y, y_stride);
      return code_groups<T, 8>(form, tiles, groups, x, y, y_stride);
  }
}

template <class T, int Bits>
[[gnu::always_inline]] inline void unpack_chunk(const std::byte* lines, std::byte* codes) {
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {  // byte k of the chunk's rows: columns 8 k to 8 k + 7
    auto low = T::no_codes(), high = T::no_codes();
#pragma GCC unroll 4
    for (int i = 0; i < Bits; ++i) {
      const auto spread = T::spread(lines + kLine * i + 16 * k);
      low = T::add_plane(low, spread, 0, i);
      high = T::add_plane(high, spread, 1, i);
    }
    T::store(low, codes + 2 * kLine * k);
    T::store(high, codes + 2 * kLine * k + kLine);
  }
}

// A byte for each.
template <int Bits>
[[gnu::always_inline]] inline void unpack_zeros(const std::byte* fields, std::size_t blocks, std::byte* zeros) {
  constexpr std::size_t kBits = Bits == 3 ? 4 : Bits;
  for (std::size_t b = 0; b < blocks; ++b, zeros += kTileRows) {
    const std::byte* from = fields + b * kBits / 8 * kTileRows;
    for (std::size_t r = 0; r < kTileRows; ++r) zeros[r] = from[r] >> b * kBits % 8 & static_cast<std::byte>((1 << kBits) - 1);
  }
}

template <class T, int Bits>
void unpack_blocks(const CodeForm& form, const std::byte* tile, std::size_t blocks, std::byte* unpacked) {
  prefetch_lead(tile, form.lead_bytes(blocks), kPrefetchBytes);
  if (form.row_scale) __builtin_memcpy(unpacked, tile, form.lead_bytes(blocks));
  if (form.zero_point && !form.row_scale) unpack_zeros<Bits>(tile, blocks, unpacked);
  tile += form.lead_bytes(blocks);
  CodeForm of_bytes = form;
  of_bytes.stored_bits = 8;
  unpacked += of_bytes.lead_bytes(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    __builtin_memcpy(unpacked, tile, form.head_bytes());
    tile += form.head_bytes();
    unpacked += form.head_bytes();
    for (std::size_t c = 0; c < form.chunks(); ++c, tile += Bits * kLine, unpacked += kQuads * kLine) {
      for (std::size_t line = 0; line < Bits * kLine; line += kLine) lanes::prefetch(tile + line, kPrefetchBytes);
      unpack_chunk<T, Bits>(tile, unpacked);
    }
  }
}

template <class T>
void unpack_planes(const CodeForm& form, const std::byte* tile, std::size_t blocks, std::byte* unpacked) {
  switch (form.bits) {
    case 1:
      return unpack_blocks<T, 1>(form, tile, blocks, unpacked);
    case 2:
      return unpack_blocks<T, 2>(form, tile, blocks, unpacked);
    case 3:
      return unpack_blocks<T, 3>(form, tile, blocks, unpacked);
    default:
      return unpack_blocks<T, 4>(form, tile, blocks, unpacked);
  }
}

}  // namespace vitro::tiles
