// Bit-serial look-up products with tables of int8 (T-MAC; variant::kInt8Tables): the sums of four activations are rounded to bytes with one
// unit per block, so a look-up asks one table where look_up.hpp asks two. Written once over a target's T; the layout of weights is the
// same, Layout::lut. lut_reference.hpp has the scalar form, docs/design/lut-kernels.md the error.
//
// A chunk of 32 columns has 8 tables of 16 bytes: a line of the even ones, then one of the odd ones, which the low and the high nibbles of
// a line of weights ask.
//
// T has, beside what code_tiles.hpp asks for:
//   kParts as in look_up.hpp; kRoundedChunks: chunks whose sums, weighted by planes, fit in 16 bits (a part of a chunk is at most
//   127 * 15 * 8 / kParts)
//   RoundedSums of two halves of rows; no_rounded_sums()
//   RoundedTables of a part; rounded_tables(const std::byte* chunk, part);
//   look_up_rounded(RoundedSums&, const std::byte* line, part, RoundedTables, plane): adds 2^plane times what is found
//   gather_rounded(Ints, RoundedSums): per row
#pragma once
#include "engine/kernels/common/look_up.hpp"

namespace vitro::look_up {

inline constexpr std::size_t kRoundedBytes = 128;         // of a chunk of 32 columns
inline constexpr std::size_t kRoundedAheadBytes = 12288;  // from a request to its use: one stream, so further than look_up.hpp's
using Wide = std::int32_t __attribute__((vector_size(64)));
using SignedBytes = std::int8_t __attribute__((vector_size(16)));

// Tables of one block of a row of activations. -> the largest sum, which became 127.
template <class T>
std::int32_t make_rounded_tables(const std::int8_t* x, std::size_t chunks, std::byte* tables) {
  const auto size = [](std::int32_t v) __attribute__((always_inline)) { return v < 0 ? -v : v; };
  std::int32_t most = 0;
  for (std::size_t g = 0; g < 8 * chunks; ++g) {
    std::int32_t sum = 0;
    for (int j = 0; j < 4; ++j) sum += size(x[4 * g + j]);
    most = most < sum ? sum : most;
  }
  const std::int32_t full = most == 0 ? 0 : (127 << 15) / most, factor = full < 32767 ? full : 32767;
  for (std::size_t c = 0; c < chunks; ++c, tables += kRoundedBytes) {
    for (std::size_t g = 0; g < 8; ++g, x += 4) {
      Sums sums = Sums{} - static_cast<std::int16_t>(x[0] + x[1] + x[2] + x[3]);
      for (int j = 0; j < 4; ++j) sums += kHas[j] & static_cast<std::int16_t>(2 * x[j]);
      const Wide rounded = (__builtin_convertvector(sums, Wide) * factor + (1 << 14)) >> 15;
      const SignedBytes bytes = __builtin_convertvector(rounded, SignedBytes);
      __builtin_memcpy(tables + g % 2 * kLine + g / 2 * sizeof bytes, &bytes, sizeof bytes);
    }
  }
  return most;
}

template <class T>
void rounded_tables(const CodeForm& form, Int8Rows x, std::byte* out, std::int32_t* most) {
  const std::size_t chunks = form.chunks(), row = x.blocks * chunks * kRoundedBytes;
  for (std::size_t b = 0, at = 0; b < x.blocks; ++b) {
    for (std::size_t m = 0; m < x.rows; ++m, ++at) {
      most[at] = make_rounded_tables<T>(x.quants + at * form.group, chunks, out + m * row + b * chunks * kRoundedBytes);
    }
  }
}

// A group of 16 rows times activation row `row`. kRowScale: as in code_tiles.hpp.
template <class T, int Bits, bool kRowScale = false>
void rounded_pass(const CodeForm& form, const std::byte* w, const TableRows& rows, std::size_t row, float* y) {
  using V = typename T::V;
  const Int8Rows& x = rows.x;
  const std::size_t head = kRowScale ? 0 : form.head_bytes(), chunks = form.chunks(), block = head + chunks * Bits * kLine;
  const std::byte* const lead = w;
  tiles::prefetch_lead(w, form.lead_bytes(x.blocks), kRoundedAheadBytes);
  w += form.lead_bytes(x.blocks);
  const std::byte* tables = rows.tables + row * x.blocks * chunks * kRoundedBytes;
  V acc = V::zero();
  for (std::size_t b = 0, at = row; b < x.blocks; ++b, at += x.rows, w += block) {
    lanes::prefetch(w, kRoundedAheadBytes);
    typename T::Ints ints = T::all(0);
    for (std::size_t first = 0; first < chunks; first += T::kRoundedChunks) {
      typename T::RoundedSums sums = T::no_rounded_sums();
      const std::size_t end = first + T::kRoundedChunks < chunks ? first + T::kRoundedChunks : chunks;
      for (std::size_t c = first; c < end; ++c, tables += kRoundedBytes) {
        const std::byte* lines = w + head + c * Bits * kLine;
#pragma GCC unroll 4
        for (int i = 0; i < Bits; ++i) lanes::prefetch(lines + i * kLine, kRoundedAheadBytes);
#pragma GCC unroll 4
        for (int part = 0; part < T::kParts; ++part) {
          const auto of_part = T::rounded_tables(tables, part);
#pragma GCC unroll 4
          for (int i = 0; i < Bits; ++i) T::look_up_rounded(sums, lines + i * kLine, part, of_part, i);
        }
      }
      ints = T::gather_rounded(ints, sums);
    }
    // (step (weighted unit + (2^Bits - 1) sum) - 2 zero sum) / 2, all of it exact but the product with the unit.
    const std::int32_t sum = x.corrections[at] / -8;
    const float unit = static_cast<float>(rows.minima[at]) / 127.0f * (static_cast<float>(form.step) * 0.5f);
    const typename T::Ints whole = T::all(form.step * ((1 << Bits) - 1) * sum);
    const typename T::Ints rest = T::minus_product(whole, tiles::zeros_of<T, Bits>(form, lead, b), 2 * sum);
    const V dot = fma(T::to_floats(ints), V::all(unit), T::to_floats(rest) * V::all(0.5f));
    acc = fma(dot, V::load(reinterpret_cast<const Half*>(kRowScale ? lead : w)) * V::all(x.scales[at]), acc);
  }
  acc.store(y);
}

template <class T, int Bits, bool kRowScale>
void rounded_groups(const CodeForm& form, const std::byte* tiles, std::size_t groups, const TableRows& x, float* y, std::size_t y_stride) {
  const std::size_t tile = form.tile_bytes(x.x.blocks);
  for (std::size_t g = 0; g < groups; ++g, tiles += tile) {
    for (std::size_t m = 0; m < x.x.rows; ++m) rounded_pass<T, Bits, kRowScale>(form, tiles, x, m, y + m * y_stride + g * kTileRows);
  }
}
template <class T, int Bits>
void rounded_groups(const CodeForm& form, const std::byte* tiles, std::size_t groups, const TableRows& x, float* y, std::size_t y_stride) {
  if (form.row_scale) return rounded_groups<T, Bits, true>(form, tiles, groups, x, y, y_stride);
  rounded_groups<T, Bits, false>(form, tiles, groups, x, y, y_stride);
}

template <class T>
void multiply_rounded(const CodeForm& form, const std::byte* tiles, std::size_t groups, TableRows x, float* y, std::size_t y_stride) {
  if (form.bits == 1) return rounded_groups<T, 1>(form, tiles, groups, x, y, y_stride);
  if (form.bits == 2) return rounded_groups<T, 2>(form, tiles, groups, x, y, y_stride);
  if (form.bits == 3) return rounded_groups<T, 3>(form, tiles, groups, x, y, y_stride);
  rounded_groups<T, 4>(form, tiles, groups, x, y, y_stride);
}

}  // namespace vitro::look_up
