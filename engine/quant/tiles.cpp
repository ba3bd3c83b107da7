#include "engine/quant/tiles.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/k_tiles.hpp"
#include "engine/quant/outlier_rows.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

constexpr std::size_t kScale = 2, kUnit = 4, kLine = kTileRows * kUnit, kChunk = 32, kMostColumns = 128;

bool has_units(Format format) { return format.family == Format::Family::block || integer_step(format).has_value(); }

// Calls move(offset in the rows, offset in the tile, bytes) for every piece of a layout that only moves bytes.
template <class Move>
void for_each_unit(Format format, std::size_t columns, Move move) {
  const std::size_t block = block_bytes(format), blocks = columns / kBlock, row = blocks * block;
  const std::size_t units = (block - kScale) / kUnit;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t tile = b * kTileRows * block;
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const std::size_t source = r * row + b * block;
      move(source, tile + r * kScale, kScale);
      for (std::size_t j = 0; j < units; ++j) {
        move(source + kScale + j * kUnit, tile + kTileRows * kScale + (j * kTileRows + r) * kUnit, kUnit);
      }
    }
  }
}

// Blocks of codes.
struct Codes {
  Format format;
  std::size_t bits, group, zero_bits;  // zero_bits: of a zero point's field in a tile, 0 without any
  bool row_scale;
  std::size_t head() const { return kScale + (zero_bits != 0 ? 1 : 0); }  // of a row's block in the file
};

Codes codes_of(Format format) {
  return {format, format.bits, format.block, format.zero_point ? zero_field_bits(format.bits) : 0, format.row_scale};
}

// Zero points of a group of rows, before its blocks and behind the scales of rows.
std::size_t zeros_bytes(const Codes& form, std::size_t columns) {
  const bool of_row = form.row_scale && form.zero_bits != 0;
  return of_row ? kTileRows : (columns / form.group * form.zero_bits + 7) / 8 * kTileRows;
}
std::size_t zeros_begin(const Codes& form) { return form.row_scale ? kTileRows * kScale : 0; }

// Calls f(byte in the rows, byte in the tile, lowest bit there) for every zero point.
template <class F>
void for_each_zero(const Codes& form, std::size_t columns, F f) {
  const std::size_t blocks = form.zero_bits != 0 ? columns / form.group : 0, bytes = block_bytes(form.format);
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t bit = form.row_scale ? 0 : b * form.zero_bits;
      f((r * blocks + b) * bytes + kScale, zeros_begin(form) + bit / 8 * kTileRows + r, static_cast<unsigned>(bit % 8));
    }
  }
}

// Where a block of row `row` of a group stands: in the rows as the file has them; in the tile its scale and the codes of all 16 rows.
struct Place {
  std::size_t row, file, scale, codes;
};

template <class F>
void for_each_block(const Codes& form, std::size_t columns, F f) {
  const std::size_t blocks = columns / form.group, bytes = block_bytes(form.format), scales = kTileRows * kScale;
  const std::size_t before = zeros_begin(form) + zeros_bytes(form, columns), head = form.row_scale ? 0 : scales;
  const std::size_t block = head + form.group / 8 * form.bits * kTileRows;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t begin = before + b * block;
    for (std::size_t r = 0; r < kTileRows; ++r) {
      f(Place{r, (r * blocks + b) * bytes, (form.row_scale ? 0 : begin) + r * kScale, begin + head});
    }
  }
}

// The byte and lowest bit of a field in Layout::tiled, counted from the codes of a chunk: of column c of row r.
struct Field {
  std::size_t byte;
  unsigned shift;
};
Field field(std::size_t bits, std::size_t c, std::size_t r) {
  const std::size_t quad = c / kUnit;
  return {quad % bits * kLine + r * kUnit + c % kUnit, static_cast<unsigned>(quad / bits * bits)};
}

// Calls f(bits of the field, field, lowest bit of the code) for the one or two fields of a code.
template <class F>
void for_each_field(std::size_t bits, std::size_t c, std::size_t r, F f) {
  if (bits != 3) return f(bits, field(bits, c, r), 0u);
  f(std::size_t{2}, field(2, c, r), 0u);
  const Field third = field(1, c, r);
  f(std::size_t{1}, Field{2 * kLine + third.byte, third.shift}, 2u);
}

void put(std::byte& to, unsigned value, unsigned shift) { to |= static_cast<std::byte>(value << shift); }
unsigned get(std::byte from, unsigned shift, std::size_t bits) { return std::to_integer<unsigned>(from) >> shift & ((1u << bits) - 1); }

// Calls f(field width, place in a block's codes, shift there, lowest bit of the code) for every field of column c.
template <class F>
void for_each_place(const Codes& form, Layout layout, std::size_t c, std::size_t r, F f) {
  const std::size_t chunk = c / kChunk * form.bits * kLine, in_chunk = c % kChunk;
  if (layout == Layout::tiled) {
    return for_each_field(form.bits, in_chunk, r,
                          [&](std::size_t bits, Field at, unsigned low) { f(bits, chunk + at.byte, at.shift, low); });
  }
  for (unsigned i = 0; i < form.bits; ++i) {
    f(std::size_t{1}, chunk + i * kLine + in_chunk / 8 * kTileRows + r, static_cast<unsigned>(in_chunk % 8), i);
  }
}

// Codes of eight bits lie as q - 128.
std::uint8_t signed_code(const Codes& form, unsigned code) { return static_cast<std::uint8_t>(form.bits == 8 ? code ^ 0x80 : code); }

void pack_by_code(const Codes& form, std::size_t columns, const std::byte* rows, std::byte* tile, Layout layout) {
  std::memset(tile, 0, kTileRows * row_bytes(form.format, columns, layout));
  std::uint8_t codes[kMostColumns];
  for_each_block(form, columns, [&](const Place& place) {
    std::memcpy(tile + place.scale, rows + place.file, kScale);
    unpack_codes(form.format, rows + place.file, form.group, codes);
    for (std::size_t c = 0; c < form.group; ++c) {
      for_each_place(form, layout, c, place.row, [&](std::size_t bits, std::size_t at, unsigned shift, unsigned low) {
        put(tile[place.codes + at], signed_code(form, codes[c]) >> low & ((1u << bits) - 1), shift);
      });
    }
  });
}

void unpack_by_code(const Codes& form, std::size_t columns, const std::byte* tile, std::byte* rows, Layout layout) {
  std::uint8_t codes[kMostColumns];
  for_each_block(form, columns, [&](const Place& place) {
    std::uint16_t scale = 0;
    std::memcpy(&scale, tile + place.scale, kScale);
    std::fill_n(codes, form.group, std::uint8_t{0});
    for (std::size_t c = 0; c < form.group; ++c) {
      for_each_place(form, layout, c, place.row, [&](std::size_t bits, std::size_t at, unsigned shift, unsigned low) {
        codes[c] = static_cast<std::uint8_t>(codes[c] | get(tile[place.codes + at], shift, bits) << low);
      });
      codes[c] = signed_code(form, codes[c]);
    }
    pack_codes(form.format, scale, 0, codes, rows + place.file);
  });
}

// A group format in Layout::lut: its own bytes, those of 16 rows side by side.
template <class Move>
void for_each_plane_byte(const Codes& form, std::size_t columns, Move move) {
  for_each_block(form, columns, [&](const Place& place) {
    move(place.file, place.scale, kScale);
    for (std::size_t i = 0; i < form.bits; ++i) {
      for (std::size_t k = 0; k < form.group / 8; ++k) {
        move(place.file + form.head() + i * (form.group / 8) + k,
             place.codes + (k / kUnit * form.bits + i) * kLine + k % kUnit * kTileRows + place.row, 1);
      }
    }
  });
}

// Calls f(block of the group in the tile, byte of the first row's block in the rows) for each block of a K-quant.
template <class F>
void for_each_k_block(Format format, std::size_t columns, F f) {
  const std::size_t bytes = block_bytes(format), blocks = columns / kSuperBlock;
  for (std::size_t b = 0; b < blocks; ++b) f(b * kTileRows * bytes, b * bytes);
}

template <class Byte>
std::array<Byte*, kTileRows> places(Byte* rows, std::size_t stride) {
  std::array<Byte*, kTileRows> places;
  for (std::size_t r = 0; r < kTileRows; ++r) places[r] = rows + r * stride;
  return places;
}

void check(Format format, std::size_t columns, Layout layout) {
  VITRO_CHECK(layout != Layout::rows && can_lay(layout, format, group_rows(layout)) && columns % block_elements(format) == 0,
              "this format has no such layout");
}

}  // namespace

bool can_lay(Layout layout, Format format, std::uint64_t rows) {
  if (layout == Layout::rows) return true;
  if (layout == Layout::strips) return stored_layout(format) == layout && rows > 0 && rows % kStripRows == 0;
  const bool tiles = has_group_kernels(format) || has_units(format) || has_k_tiles(format) || format.has_outliers();
  const bool known = layout == Layout::tiled ? tiles : has_look_ups(format) || format == Format::q4_0;
  return known && rows > 0 && rows % kTileRows == 0;
}

std::set<Format> formats_with(Layout layout) {
  std::set<Format> formats;
  for (const Format format : all_formats()) {
    if (can_lay(layout, format, group_rows(layout))) formats.insert(format);
  }
  return formats;
}

void pack_tile(Format format, std::size_t columns, const std::byte* rows_in, std::byte* tile_out, Layout layout) {
  check(format, columns, layout);
  if (layout == Layout::strips) return pack_strip(columns, rows_in, tile_out);
  if (format.has_outliers()) return pack_outlier_tile(columns, rows_in, tile_out);
  const auto move = [&](std::size_t row, std::size_t tile, std::size_t n) { std::memcpy(tile_out + tile, rows_in + row, n); };
  if (layout == Layout::tiled && has_units(format)) return for_each_unit(format, columns, move);
  if (has_k_tiles(format)) {
    return for_each_k_block(format, columns, [&](std::size_t tile, std::size_t row) {
      pack_k_block(format, places(rows_in + row, row_bytes(format, columns)).data(), tile_out + tile);
    });
  }
  const Codes form = codes_of(format);
  if (layout == Layout::lut && format != Format::q4_0) {
    for_each_plane_byte(form, columns, move);
  } else {
    pack_by_code(form, columns, rows_in, tile_out, layout);
  }
  std::memset(tile_out + zeros_begin(form), 0, zeros_bytes(form, columns));
  for_each_zero(form, columns, [&](std::size_t from, std::size_t to, unsigned shift) {
    put(tile_out[to], std::to_integer<unsigned>(rows_in[from]), shift);  // of a row: the same again
  });
}

void unpack_tile(Format format, std::size_t columns, const std::byte* tile_in, std::byte* rows_out, Layout layout) {
  check(format, columns, layout);
  if (layout == Layout::strips) return unpack_strip(columns, tile_in, rows_out);
  if (format.has_outliers()) return unpack_outlier_tile(columns, tile_in, rows_out);
  const auto move = [&](std::size_t row, std::size_t tile, std::size_t n) { std::memcpy(rows_out + row, tile_in + tile, n); };
  if (layout == Layout::tiled && has_units(format)) return for_each_unit(format, columns, move);
  if (has_k_tiles(format)) {
    return for_each_k_block(format, columns, [&](std::size_t tile, std::size_t row) {
      unpack_k_block(format, tile_in + tile, places(rows_out + row, row_bytes(format, columns)).data());
    });
  }
  const Codes form = codes_of(format);
  if (layout == Layout::lut && format != Format::q4_0) {
    for_each_plane_byte(form, columns, move);
  } else {
    unpack_by_code(form, columns, tile_in, rows_out, layout);
  }
  for_each_zero(form, columns, [&](std::size_t to, std::size_t from, unsigned shift) {
    rows_out[to] = static_cast<std::byte>(get(tile_in[from], shift, form.zero_bits));  // fields of rows have no others beside them
  });
}

}  // namespace vitro
