// Layout::tiled of K-quants. A block of a group of 16 rows has as many bytes as the rows' blocks in the file:
//   q4_k: 16 d, 16 m (32 bytes each); the rows' 12 bytes of 6-bit scales and minima, first bytes first (12 lines of 16 bytes); per 32
//         columns 256 bytes of nibbles as q4_0 has them                                                      (2304 bytes)
//   q5_k: as q4_k, and behind the nibbles of 32 columns a line of 16 rows x 4 bytes with the fifth bits: those of quad j (tiles.hpp) are
//         bit j of its row's bytes                                                                           (2816 bytes)
//   q6_k: 16 d; the rows' 16 scales, first ones first (16 lines of 16 bytes); per 32 columns 256 bytes of low nibbles as q4_0 has
//         them, then two lines of 16 rows x 4 bytes with the two high bits: those of quad j (tiles.hpp) are field j / 2 of line
//         j % 2, lowest bits first                                                                           (3360 bytes)
//   iq4_xs: 16 d; the rows' 6 bytes of scales, first bytes first (6 lines of 16 bytes); per 32 columns 256 bytes of nibbles as q4_0 has
//         them                                                                                               (2176 bytes)
#pragma once
#include <cstddef>

#include "engine/tensor/format.hpp"
#include "engine/tensor/layout.hpp"

namespace vitro {

inline bool has_k_tiles(Format format) { return format.family == Format::Family::k_quant; }
// Whether a block takes minima off, so that products need the sums of activations.
inline bool has_minima(Format format) { return format == Format::q4_k || format == Format::q5_k; }

// One block of a group, from where it stands in each of kTileRows rows, and back. Requires: has_k_tiles(format), no overlap.
void pack_k_block(Format format, const std::byte* const* rows, std::byte* tile);
void unpack_k_block(Format format, const std::byte* tile, std::byte* const* rows);

}  // namespace vitro
