// HVX kernels. Names that begin with hvx_ are stages that a phone runs as they stand, bit-exact everywhere, and what the packet counter
// counts: integers, and scalar floats;
// float_ is the stage that a phone does in qfloat and this worker does in IEEE scalars (docs/design/lut-kernels.md).
// Pointers are aligned to kVectorBytes. Counts are per panel; see panels.hpp for the layouts.
#pragma once
#include "engine/kernels/hexagon/lut_stages.hpp"

namespace vitro::hexagon {

// A piece of a strip (panels.hpp) from 32 rows that stand in TCM as a file has them, `pitch` bytes apart, whole vectors: of four blocks of
// q8_0, or eight of q4_0. `rows` is the first block of the first row. Where rows have less, bytes behind them are read, and the piece's
// other tiles mean nothing.
extern "C" void hvx_q8_rows(const unsigned char* rows, uint32_t pitch, unsigned char* scales, unsigned char* values);
extern "C" void hvx_q4_rows(const unsigned char* rows, uint32_t pitch, unsigned char* scales, unsigned char* values);
// The same of eight blocks of nibbles, whose scales stand at `from`, as far apart.
extern "C" void hvx_nibble_rows(const unsigned char* rows, const unsigned char* from, uint32_t pitch, unsigned char* scales,
                                unsigned char* values);

// Rows of f16, q8_0 or q4_0 (bits: 16, 8, 4) as a file has them, `pitch` bytes apart, whole vectors, and what they are multiplied by in
// each row of results: h [batch], `h_pitch` floats apart, [count] each. scales: where a row's scales begin that lie behind its nibbles; 0:
// each stands in front of its block.
struct AddedRows {
  const unsigned char* rows;
  uint32_t pitch, count, bits, scales;
  const float* h;
  uint32_t h_pitch, batch;
};
// y[m][c] = fma(h[m][row], w[row][c], y[m][c]) for each row whose h[m] is not 0, ascending, of blocks [from, to) of 32 columns. Scalar
// floats on HVX's integers: HVX has no fused multiply-add that rounds once. made: floats of kAddedTogether rows, kAddedSpan each.
extern "C" void hvx_add_rows(const AddedRows* added, uint32_t from, uint32_t to, float* made, float* y, uint32_t y_pitch);
// y[row] = over blocks ascending, acc = fma(float(dot), d_w * d_x, acc), from y[row] on if there were `more` blocks before, else from 0.
// `rows` <= kLutPanelRows are stored; d_w of a row is scales[b * step + row].
extern "C" void float_accumulate(const int32_t* dots, const uint16_t* scales, uint32_t step, const ActivationScale* x, uint32_t blocks,
                                 uint32_t rows, bool more, float* y);

// Nibbles of q4_0 in a strip (panels.hpp) to tiles of bytes, in the order of those of q8_0.
extern "C" void hvx_nibble_tiles(const unsigned char* nibbles, uint32_t tiles, unsigned char* out);
// y[row][c] as float_accumulate() has it, from the sums of blocks [row][32], `pitch` words from one block to the next; d_w of column c
// twice at scales[b][2 c], d_x of a row x_scales[row * x_pitch + b].
extern "C" void float_scale_sums(const int32_t* sums, uint32_t pitch, const uint16_t* scales, const float* x_scales, uint32_t x_pitch,
                                 uint32_t rows, uint32_t columns, uint32_t blocks, bool more, float* y, uint32_t y_pitch);

// Bit-serial matrix-vector product by table look-up (T-MAN 4.3), split as Precompute, Linear and Finalize (lut_stages.hpp).
// Linear takes a tile's columns, `count` vectors of tables, of `panels` panels whose planes are `pitch` bytes apart.
// tables: [columns / 4][16]; weighted: [panels][blocks][128 rows]; factor: 2^bits - 1 - 2 zero.
extern "C" void hvx_lut_precompute(const int8_t* x, uint32_t groups, uint16_t* tables);
extern "C" void hvx_lut_linear(const unsigned char* planes, uint32_t pitch, uint32_t panels, const uint16_t* tables, uint32_t count,
                               uint32_t bits, uint32_t group, int32_t* weighted);
extern "C" void hvx_lut_finalize(const int32_t* weighted, const ZeroFields& zeros, Zeros form, const ActivationScale* x, int32_t factor,
                                 uint32_t blocks, int32_t* dots);

// The same with activations of 14 bits, whose sums of four fill a table's 16 bits.
extern "C" void hvx_lut_precompute_wide(const int16_t* x, uint32_t groups, uint16_t* tables);
extern "C" void hvx_lut_linear_wide(const unsigned char* planes, uint32_t pitch, uint32_t panels, const uint16_t* tables, uint32_t count,
                                    uint32_t bits, uint32_t group, int32_t* weighted);
extern "C" void hvx_lut_finalize_wide(const int32_t* weighted, const ZeroFields& zeros, Zeros form, const ActivationScale* x,
                                      int32_t factor, uint32_t blocks, int32_t* dots);

// The same with tables of int8: their entries rounded by the factors of x [blocks]; tables: [columns / 16] vectors (hvx.hpp). weighted:
// [panels][blocks][128 rows], sums over planes of 2^i times what is found. y as float_accumulate() has it, dot = fma(weighted, unit, rest
// / 2) with rest = steps * sum - 2 zero sum.
extern "C" void hvx_lut_precompute_rounded(const int8_t* x, const RoundedScale* scales, uint32_t group, uint32_t blocks, uint8_t* tables);
extern "C" void hvx_lut_linear_rounded(const unsigned char* planes, uint32_t pitch, uint32_t panels, const uint8_t* tables, uint32_t count,
                                       uint32_t bits, uint32_t group, int32_t* weighted);
extern "C" void float_accumulate_rounded(const int32_t* weighted, const uint16_t* scales, uint32_t step, const ZeroFields& zeros,
                                         Zeros form, const RoundedScale* x, int32_t steps, uint32_t blocks, uint32_t rows, bool more,
                                         float* y);

extern "C" void hvx_dequantise(const unsigned char* nibbles, const uint16_t* scales, const uint16_t* table, uint32_t vectors, uint16_t* q,
                               uint16_t* spread);
extern "C" void hvx_dequantise_fused(const unsigned char* nibbles, const uint16_t* tables, uint32_t vectors, uint16_t* w);
extern "C" void hvx_unpack(const unsigned char* nibbles, uint32_t vectors, int16_t* q);
extern "C" void hvx_copy(const unsigned char* from, uint32_t vectors, unsigned char* to);
// What the papers compare with (layout_stages.hpp). Groups of q4_0 in the order of tiles, each with its scale in front; rows of q4_0 as a
// file has them, to strips of tiles [count / 32][columns / 32]; bit planes by conversion, 1024 weights a trip.
extern "C" void float_uncoalesced_q4(const unsigned char* blocks, const uint16_t* table, uint32_t groups, uint16_t* w);
extern "C" void float_scatter_q4(const unsigned char* rows, const uint16_t* table, uint32_t count, uint32_t columns, uint16_t* w);
extern "C" void float_convert_planes_w4(const unsigned char* planes, const float* scales, const float* zeros, uint32_t trips, uint16_t* w);
extern "C" void float_convert_planes_w4_in_halves(const unsigned char* planes, const uint16_t* scales, const uint16_t* zeros,
                                                  uint32_t trips, uint16_t* w);
// Nibbles to fp16 values, in the order in which they stand; the values times scales: with one scale per element, or with one vector of
// them for `every` vectors. The product is a qfloat stage on a phone, IEEE halves here.
extern "C" void hvx_values(const unsigned char* nibbles, const uint16_t* table, uint32_t vectors, uint16_t* q);
extern "C" void float_scale(uint16_t* q, const uint16_t* scales, uint32_t every, uint32_t vectors);
// Tile groups (TTS-NPU 5.1) to fp16; 256 weights per vector. Requires: vectors a multiple of 8.
extern "C" void float_dequantise_tiles(const unsigned char* nibbles, const uint16_t* scales, const uint16_t* table, uint32_t vectors,
                                       uint16_t* w);
// Tiles of a strip of q8_0 (panels.hpp) to fp16, with a vector of scales each.
extern "C" void float_dequantise_bytes(const unsigned char* bytes, const uint16_t* scales, uint32_t tiles, uint16_t* w);
// The outliers of tiles [first, end) of a strip of w4_outliers, `columns` columns deep (outlier_strips.hpp); `tiles`: tile `first`.
extern "C" void float_place_outliers(const unsigned char* strip, uint32_t columns, uint32_t first, uint32_t end, uint16_t* tiles);
// `blocks` blocks of a bit-serial panel to weight tiles [4][columns / 32] (T-MAN 4.1). tables: the vector of the first level, then that of
// the values.
extern "C" void float_lut_tiles(const unsigned char* planes, const ZeroFields& zeros, const uint16_t* scales, uint32_t step,
                                const uint16_t* tables, uint32_t bits, uint32_t group, Zeros form, uint32_t blocks, uint16_t* tiles);
// The same with scales in the second tables (scaled_tables.hpp): tiles of the matrix unit's first operand, rows in the order of
// scaled_row().
extern "C" void float_scaled_tiles(const unsigned char* planes, const ZeroFields& zeros, const uint16_t* scales, uint32_t step,
                                   const uint16_t* tables, uint32_t bits, uint32_t group, Zeros form, uint32_t blocks, uint16_t* tiles);
// `pairs` pairs of tiles of an fp16 strip (panels.hpp).
extern "C" void hvx_f16_tiles(const unsigned char* strip, uint32_t pairs, uint16_t* tiles);
// `pairs` times 8 columns of a bit-serial panel to int8 tiles [4 strips][tiles]. tables: of bit plane i, the bytes that four bits stand
// for: of columns 0 and 1 in table 2 i, of 2 and 3 in table 2 i + 1, four tables in a vector; planes are or'ed.
extern "C" void hvx_int8_tiles(const unsigned char* planes, const uint16_t* tables, uint32_t bits, uint32_t pairs, uint32_t tiles,
                               int8_t* out);
// 64 columns of 32 keys, rows `stride` vectors apart, to a pair of tiles of the transpose; of 32 values, as they lie, to a tile of the
// first 32 columns and one of the others.
extern "C" void hvx_key_tiles(const uint16_t* rows, uint32_t stride, uint16_t* tiles);
extern "C" void hvx_value_tiles(const uint16_t* rows, uint32_t stride, uint16_t* first, uint16_t* second);
// Scores of 32 keys from key `first` on, of pairs of rows, a vector each: those of keys that a row does not see become the lowest half.
// seen [pairs][2]: how many keys each row sees.
extern "C" void hvx_mask_scores(uint16_t* scores, const uint32_t* seen, uint32_t pairs, uint32_t first);
// Of pairs of rows, a vector each: their sums, the first two halves, become reciprocals, the first two floats. Scalars, as on a phone.
extern "C" void hvx_reciprocals(uint16_t* sums, uint32_t pairs);
extern "C" void hvx_exp(const uint16_t* x, const uint16_t* table, uint32_t vectors, uint16_t* y);

}  // namespace vitro::hexagon
