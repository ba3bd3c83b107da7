// Strips of w4_outliers (engine/quant/outlier_rows.hpp) for the matrix unit: 32 rows with one scale each, and weights in int8 apart. For
// host and worker. A strip of K columns is, in vectors:
//   the scale of each row twice, as strips of q4_0 have those of a tile (panels.hpp); the scale of its outliers in the same way, which is
//   where tables 0 and 2 of a look-up have 16 rows each
//   uint16 [K / 32]: behind which outlier those of each tile end; then the outliers, tile by tile: their places, uint16, in elements from
//   the first tile of kSpanTiles on, and then their values, int8
//   nibbles as in strips of q4_0, which are those of zero under outliers
// A part of the depth takes all but the nibbles whole.
#pragma once
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kSpanTiles = 32;                   // what offsets of 16 bits in bytes reach
inline constexpr uint32_t kPlacedHalves = kVectorBytes / 2;  // outliers that a vector places

struct OutlierStrip {
  uint32_t columns;

  constexpr uint32_t tiles() const { return columns / kTile; }
  constexpr uint32_t outliers() const { return kTile * ((columns + 99) / 100); }  // OutlierRow's, of 32 rows
  constexpr uint32_t scales() const { return 0; }
  constexpr uint32_t outlier_scales() const { return kVectorBytes; }
  constexpr uint32_t ends() const { return 2 * kVectorBytes; }
  constexpr uint32_t places() const { return ends() + 2 * tiles(); }
  constexpr uint32_t values() const { return places() + 2 * outliers(); }
  constexpr uint32_t nibbles() const { return (values() + outliers() + kVectorBytes - 1) / kVectorBytes * kVectorBytes; }
};

// `count` outliers to their elements of the tiles from `tiles` on, after their nibbles: value by conversion (float_stages.hpp), the row's
// scale by look-up, one product, and a scatter. 64 a trip; the last one reads more. The element that an outlier has in its tile says its
// row. I has beside what is named in float_stages.hpp: load_unaligned, shift_right, look_up_marked, look_up_more, unpack_signed,
// scatter_first.
template <class I>
[[gnu::always_inline]] inline void place_outliers(const unsigned char* places, const unsigned char* values,
                                                  const typename I::Vector& scales, uint32_t count, uintptr_t tiles) {
  constexpr int kMagic = 0x6600;
  const auto magic = I::splat_half(kMagic), rows = I::splat_half(kTile - 1);
  const typename I::Vector tables = scales;
  const uint32_t trips = (count + kPlacedHalves - 1) / kPlacedHalves;
  for (uint32_t trip = 0; trip < trips; ++trip, places += kVectorBytes, values += kPlacedHalves, count -= kPlacedHalves) {
    const auto place = I::load_unaligned(places);
    const auto row = I::mask(I::shift_right(place, 1), rows);  // tile_place()
    const auto scale = I::template look_up_more<2>(I::template look_up_marked<0>(row, tables), row, tables).lo;
    const auto value = I::subtract_half(I::add_half(I::unpack_signed(I::load_unaligned(values)).lo, magic), magic);
    I::scatter_first(count < kPlacedHalves ? count : kPlacedHalves, tiles, I::add_half(place, place),
                     I::to_half(I::multiply(value, scale)));
  }
}

}  // namespace vitro::hexagon
