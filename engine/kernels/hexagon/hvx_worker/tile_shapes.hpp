// Which of the compiled loops takes which columns of a tile: each holds 2, 4, 8 or 16 vectors of tables in registers. A tile as wide as one
// of them is one pass; a narrower one, at a matrix's end, is as many as it takes.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"

namespace vitro::hexagon {

inline constexpr uint32_t kTableColumns = 16;  // of a vector of tables

// Columns of some panels: their planes, `pitch` bytes from one panel to the next; tables; weighted sums, `row` of them per panel.
struct TileColumns {
  const unsigned char* planes;
  uint32_t pitch, panels;
  const unsigned char* tables;
  int32_t* weighted;
  uint32_t row;
};

// Loop::run<kTables>(columns). All of it is one function, so that packets are counted under its caller's name.
template <class Loop, uint32_t kBits, uint32_t kGroup>
[[gnu::always_inline]] inline void by_columns(TileColumns c, uint32_t count) {
  constexpr uint32_t kLeast = kGroup / kTableColumns;
  c.row = count / kLeast * kLutPanelRows;
  while (count >= kLeast) {
    uint32_t taken = kLeast;
    if (count >= 16) {
      Loop::template run<16>(c);
      taken = 16;
    } else if (kLeast < 8 && count >= 8) {
      Loop::template run<8>(c);
      taken = 8;
    } else if (kLeast < 4 && count >= 4) {
      Loop::template run<4>(c);
      taken = 4;
    } else {
      Loop::template run<kLeast>(c);
    }
    count -= taken;
    c.planes += taken * 2 * kBits * kVectorBytes;
    c.tables += taken * kVectorBytes;
    c.weighted += taken / kLeast * kLutPanelRows;
  }
}

template <template <uint32_t, uint32_t> class Loop, uint32_t kBits>
[[gnu::always_inline]] inline void by_group(const TileColumns& columns, uint32_t count, uint32_t group) {
  if (group == 32) return by_columns<Loop<kBits, 32>, kBits, 32>(columns, count);
  if (group == 64) return by_columns<Loop<kBits, 64>, kBits, 64>(columns, count);
  return by_columns<Loop<kBits, 128>, kBits, 128>(columns, count);
}

// count: vectors of tables, a multiple of those of a block.
template <template <uint32_t, uint32_t> class Loop>
[[gnu::always_inline]] inline void by_bits(const TileColumns& columns, uint32_t count, uint32_t bits, uint32_t group) {
  if (bits == 1) return by_group<Loop, 1>(columns, count, group);
  if (bits == 2) return by_group<Loop, 2>(columns, count, group);
  if (bits == 3) return by_group<Loop, 3>(columns, count, group);
  by_group<Loop, 4>(columns, count, group);
}

}  // namespace vitro::hexagon
