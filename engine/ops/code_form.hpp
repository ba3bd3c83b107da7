// Weights as integer codes, as the int8 contract sees them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/ops/kernel_call.hpp"
#include "engine/quant/outlier_rows.hpp"

namespace vitro {

// A weight is d * (step * q - zero), 0 <= q < 2^bits, in blocks of `group` columns that share d and zero. A tile of 16 rows has each zero
// point, and d where rows have one, before their blocks (engine/quant/tiles.hpp). Codes of 8 bits lie as q - 128.
struct CodeForm {
  std::uint32_t bits = 0, group = 0;
  bool zero_point = false;  // each block has its own zero, else it is `zero`
  std::int32_t step = 1, zero = 0;
  std::uint32_t stored_bits = 0;  // of a code in the tiles at hand: `bits`, or 8 where codes and zero points are unpacked
  bool row_scale = false;
  bool outliers = false;  // before its blocks a tile has those of w4_outliers, too, which code_dots() passes over

  // Inlined always: files of several instruction sets use them, and no copy of one may be linked into another.
  [[gnu::always_inline]] std::size_t chunks() const { return group / 32; }  // of 32 columns, in a block
  [[gnu::always_inline]] std::size_t zero_bits() const { return !zero_point ? 0 : stored_bits == 3 ? 4 : stored_bits; }
  [[gnu::always_inline]] std::size_t lead_bytes(std::size_t blocks) const {  // of 16 rows, before their blocks
    if (outliers) return 16 * OutlierRow{blocks * group}.nibbles();
    return row_scale ? (zero_point ? 48 : 32) : (blocks * zero_bits() + 7) / 8 * 16;
  }
  [[gnu::always_inline]] std::size_t head_bytes() const { return row_scale ? 0 : 32; }  // of a block: scales
  [[gnu::always_inline]] std::size_t tile_block_bytes() const { return head_bytes() + chunks() * stored_bits * 64; }
  [[gnu::always_inline]] std::size_t tile_bytes(std::size_t blocks) const { return lead_bytes(blocks) + blocks * tile_block_bytes(); }
};

// None for other formats. q4_0 is one: 4 bits in groups of 32 with zero 8; so is w4_outliers, with one scale per row.
std::optional<CodeForm> code_form(Format format);

// Of a format whose codes name one of 16 integers: a weight is d * factor * values[q], and the product with `factor`, a power of
// two, is exact.
struct ValueTable {
  std::int8_t values[16] = {};
  float factor = 1;
};
// iq4_nl, and fp4 by halves of its values; none for other formats (nf4's values are no multiples of anything).
std::optional<ValueTable> value_table(Format format);

}  // namespace vitro
