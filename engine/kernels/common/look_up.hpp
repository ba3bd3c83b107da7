// Bit-serial look-up products (T-MAC 3; T-MAN 4.3) on weights in Layout::lut, exact, written once over a target's T. Precompute is
// make_tables(), Linear the look-ups of look_up_pass(), Finalize its last lines. docs/design/lut-kernels.md derives what follows.
//
// A table of four activations has 16 sums: entry e adds those whose bit is set in e. Less the least of them they are 0 to 508, so
// an entry is low + 16 high with low <= 15 and high <= 31, a table of bytes each: eight entries add up in a byte, and sums are
// widened once for eight look-ups instead of each time. A chunk of 32 columns has 8 tables of 32 bytes. 64-byte lines hold, of
// the even tables 0, 2, 4, 6, the low bytes, then the high ones; then the same of the odd tables: the nibbles of one line of
// weights ask the even tables with their low halves and the odd ones with their high halves.
//
// T has, beside what code_tiles.hpp asks for:
//   PlaneSums: bytes of sums of one bit plane; no_sums()
//   kParts: look_up() deals with 64 / kParts bytes of a line at a time, so a byte of sums gets 2 kParts look-ups from a chunk
//   kChunksTogether: chunks that add up before gather(), 1 or 2, at most 4 / kParts where sums are bytes (four of them, unrolled
//   with four planes, were slower on AVX-512)
//   Tables: of a part; tables(const std::byte* chunk, part); look_up(PlaneSums&, const std::byte* line, part, Tables)
//   gather<Bits>(Ints, PlaneSums[Bits]): adds sum over planes i of 2^i (low + 16 high), per row
//   tiles_together(bits): groups of rows that share the loaded tables
#pragma once
#include "engine/kernels/common/code_tiles.hpp"

namespace vitro::look_up {

inline constexpr std::size_t kTableBytes = 256;   // of a chunk of 32 columns
inline constexpr std::size_t kAheadBytes = 6144;  // from a request to its use, in each of the groups that are read side by side
using tiles::kLine;

using Sums = std::int16_t __attribute__((vector_size(32)));
using Bytes = std::uint8_t __attribute__((vector_size(16)));

// All bits of a lane where activation j belongs to entry `lane`.
inline constexpr Sums kHas[4] = {{0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1},
                                 {0, 0, -1, -1, 0, 0, -1, -1, 0, 0, -1, -1, 0, 0, -1, -1},
                                 {0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0, -1, -1, -1, -1},
                                 {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1}};

// Tables of one row of activations: `chunks` times 32 quants. -> the sum of what was taken off.
template <class T>
std::int32_t make_tables(const std::int8_t* x, std::size_t chunks, std::byte* tables) {
  std::int32_t minima = 0;
  for (std::size_t c = 0; c < chunks; ++c, tables += kTableBytes) {
    for (std::size_t g = 0; g < 8; ++g, x += 4) {
      std::int16_t least = 0;
      for (int j = 0; j < 4; ++j) least = static_cast<std::int16_t>(least + (x[j] < 0 ? x[j] : 0));
      Sums sums = Sums{} - least;
      for (int j = 0; j < 4; ++j) sums += kHas[j] & static_cast<std::int16_t>(x[j]);
      const Bytes low = __builtin_convertvector(sums & 15, Bytes), high = __builtin_convertvector(sums >> 4, Bytes);
      std::byte* table = tables + g % 2 * (2 * kLine) + g / 2 * sizeof(Bytes);
      __builtin_memcpy(table, &low, sizeof low);
      __builtin_memcpy(table + kLine, &high, sizeof high);
      minima += least;
    }
  }
  return minima;
}

template <class T>
void tables(const CodeForm& form, Int8Rows x, std::byte* out, std::int32_t* minima) {
  const std::size_t chunks = form.chunks(), row = x.blocks * chunks * kTableBytes;
  for (std::size_t b = 0, at = 0; b < x.blocks; ++b) {
    for (std::size_t m = 0; m < x.rows; ++m, ++at) {
      minima[at] = make_tables<T>(x.quants + at * form.group, chunks, out + m * row + b * chunks * kTableBytes);
    }
  }
}

// R groups of 16 rows, `tile` bytes apart, times activation row `row`, `Together` chunks at a time. kRowScale: as in code_tiles.hpp.
template <class T, int Bits, int Together, int R, bool kRowScale = false>
void pass(const CodeForm& form, const std::byte* w, std::size_t tile, const TableRows& rows, std::size_t row, float* y) {
  using V = typename T::V;
  const Int8Rows& x = rows.x;
  const std::size_t head = kRowScale ? 0 : form.head_bytes(), chunks = form.chunks(), block = head + chunks * Bits * kLine;
  const std::size_t early = kAheadBytes / block + 1;  // blocks from a request to its use
  const std::byte* const lead = w;
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) tiles::prefetch_lead(w + r * tile, form.lead_bytes(x.blocks), early * block);
  w += form.lead_bytes(x.blocks);
  const std::byte* tables = rows.tables + row * x.blocks * chunks * kTableBytes;
  V acc[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) acc[r] = V::zero();
  for (std::size_t b = 0, at = row; b < x.blocks; ++b, at += x.rows, w += block) {
    const std::int32_t lost = rows.minima[at] * ((1 << Bits) - 1), sum = x.corrections[at] / -8;
    // Behind a group's end stands the group beside it, which is read at the same time: what comes next is R - 1 groups further.
    const std::size_t ahead = (b + early < x.blocks ? 0 : (R - 1) * tile) + early * block;
    typename T::Ints ints[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      ints[r] = T::all(lost);
      lanes::prefetch(w + r * tile, ahead);  // scales, then chunk by chunk
    }
    for (std::size_t first = 0; first < chunks; first += Together) {
      typename T::PlaneSums sums[R][Bits];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int i = 0; i < Bits; ++i) sums[r][i] = T::no_sums();
      }
#pragma GCC unroll 4
      for (int c = 0; c < Together; ++c, tables += kTableBytes) {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
          for (int i = 0; i < Bits; ++i) lanes::prefetch(w + r * tile, ahead + kLine + ((first + c) * Bits + i) * kLine);
        }
#pragma GCC unroll 4
        for (int part = 0; part < T::kParts; ++part) {
          const auto of_part = T::tables(tables, part);
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
            for (int i = 0; i < Bits; ++i) {
              T::look_up(sums[r][i], w + r * tile + head + ((first + c) * Bits + i) * kLine, part, of_part);
            }
          }
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) ints[r] = T::template gather<Bits>(ints[r], sums[r]);
    }
    const V scale_x = V::all(x.scales[at]);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const std::byte* begin = w + r * tile;
      const V scale = V::load(reinterpret_cast<const Half*>(kRowScale ? lead + r * tile : begin)) * scale_x;
      const typename T::Ints zeros = tiles::zeros_of<T, Bits>(form, lead + r * tile, b);
      acc[r] = fma(T::to_floats(tiles::finish_codes<T>(ints[r], form, zeros, sum)), scale, acc[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) acc[r].store(y + r * kTileRows);
}

// Groups of rows meet all activation rows while their bytes are in the nearest caches.
template <class T, int Bits, int Together, bool kRowScale>
void groups_of(const CodeForm& form, const std::byte* tiles, std::size_t groups, const TableRows& x, float* y, std::size_t y_stride) {
  constexpr int kMost = T::tiles_together(Bits);
  const std::size_t tile = form.tile_bytes(x.x.blocks);
  const auto some = [&]<int R>(std::size_t g) __attribute__((always_inline)) {
    for (std::size_t m = 0; m < x.x.rows; ++m) {
      pass<T, Bits, Together, R, kRowScale>(form, tiles + g * tile, tile, x, m, y + m * y_stride + g * kTileRows);
    }
  };
  std::size_t g = 0;
  for (; g + kMost <= groups; g += kMost) some.template operator()<kMost>(g);
  for (; g < groups; ++g) some.template operator()<1>(g);
}

template <class T, int Bits, bool kRowScale>
void chunks(const CodeForm& form, const std::byte* tiles, std::size_t groups, const TableRows& x, float* y, std::size_t y_stride) {
  if constexpr (T::kChunksTogether >= 2) {
    if (form.chunks() >= 2) return groups_of<T, Bits, 2, kRowScale>(form, tiles, groups, x, y, y_stride);
  }
  groups_of<T, Bits, 1, kRowScale>(form, tiles, groups, x, y, y_stride);
}

template <class T, int Bits>
void planes(const CodeForm& form, const std::byte* tiles, std::size_t groups, const TableRows& x, float* y, std::size_t y_stride) {
  if (form.row_scale) return chunks<T, Bits, true>(form, tiles, groups, x, y, y_stride);
  chunks<T, Bits, false>(form, tiles, groups, x, y, y_stride);
}

template <class T>
void multiply(const CodeForm& form, const std::byte* tiles, std::size_t groups, TableRows x, float* y, std::size_t y_stride) {
  switch (form.bits) {
    case 1:
      return planes<T, 1>(form, tiles, groups, x, y, y_stride);
    case 2:
      return planes<T, 2>(form, tiles, groups, x, y, y_stride);
    case 3:
      return planes<T, 3>(form, tiles, groups, x, y, y_stride);
    default:
      return planes<T, 4>(form, tiles, groups, x, y, y_stride);
  }
}

}  // namespace vitro::look_up
