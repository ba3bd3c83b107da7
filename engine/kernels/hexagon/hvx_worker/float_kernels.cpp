// The float stages as a phone would run them: in qfloat up to V75, with VITRO_IEEE_FLOATS in IEEE floats as V79 does. Never linked: the
// emulator has neither, so their price is the packets of their loops (docs/design/hexagon.md).
#include "engine/kernels/hexagon/attention_layout.hpp"
#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/float_stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_float.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_ieee_floats.hpp"
#include "engine/kernels/hexagon/lut_stages.hpp"
#include "engine/kernels/hexagon/outlier_strips.hpp"
#include "engine/kernels/hexagon/scaled_tables.hpp"

namespace vitro::hexagon {

#ifdef VITRO_IEEE_FLOATS
using Isa = HvxIeeeFloats;
#else
using Isa = Hvx;
#endif

extern "C" {

void qf_dequantise_q4(const HVX_Vector* in, const HVX_Vector* scales, const HVX_Vector* indices, const HVX_Vector* values, uint32_t vectors,
                      HVX_Vector* out) {
  dequantise_q4<Isa>(in, scales, indices, *values, vectors, out);
}

void qf_convert_q4(const HVX_Vector* in, const HVX_Vector* scales, const HVX_Vector* indices, uint32_t vectors, HVX_Vector* out) {
  convert_q4<Isa>(in, scales, indices, vectors, out);
}

// Of sums of blocks: four rows of 32 columns, a block per trip; and one row.
void qf_scale_sums(const HVX_Vector* sums, uint32_t pitch, const HVX_Vector* scales, const int32_t* x_scales, uint32_t x_pitch,
                   uint32_t blocks, HVX_Vector* y, uint32_t y_pitch) {
  scale_sums<Isa, 4>(sums, pitch, scales, x_scales, x_pitch, blocks, y, y_pitch);
}
void qf_scale_sums_of_row(const HVX_Vector* sums, uint32_t pitch, const HVX_Vector* scales, const int32_t* x_scales, uint32_t x_pitch,
                          uint32_t blocks, HVX_Vector* y, uint32_t y_pitch) {
  scale_sums<Isa, 1>(sums, pitch, scales, x_scales, x_pitch, blocks, y, y_pitch);
}

// Activations for tables, in the formats' blocks.
#define VITRO_QUANTISE(block)                                                                                                      \
  void qf_quantise_g##block(const HVX_Vector* x, uint32_t vectors, HVX_Vector* quants, HVX_Vector* scales, HVX_Vector* sums) { \
    quantise_activations<Isa, block>(x, vectors, quants, scales, sums);                                                            \
  }
VITRO_QUANTISE(32)
VITRO_QUANTISE(64)
VITRO_QUANTISE(128)
#define VITRO_QUANTISE_WIDE(block)                                                                                                      \
  void qf_quantise_wide_g##block(const HVX_Vector* x, uint32_t vectors, HVX_Vector* quants, HVX_Vector* scales, HVX_Vector* sums) { \
    quantise_activations<Isa, block, true>(x, vectors, quants, scales, sums);                                                           \
  }
VITRO_QUANTISE_WIDE(32)
VITRO_QUANTISE_WIDE(64)
VITRO_QUANTISE_WIDE(128)

// Ordinary groups of 32 along the depth, in tiles: one vector of scales serves a tile.
void qf_dequantise_columns(const HVX_Vector* in, const HVX_Vector* scales, const HVX_Vector* values, uint32_t tiles, HVX_Vector* out) {
  dequantise_columns_q4<Isa>(in, scales, *values, tiles, out);
}

void qf_dequantise_bytes(const HVX_Vector* in, const HVX_Vector* scales, uint32_t tiles, HVX_Vector* out) {
  dequantise_columns_q8<Isa>(in, scales, tiles, out);
}

// Of rows with one scale: outliers of a span of tiles, after their nibbles.
void qf_place_outliers(const unsigned char* places, const unsigned char* values, const HVX_Vector* scales, uint32_t count,
                       uintptr_t tiles) {
  place_outliers<Isa>(places, values, *scales, count, tiles);
}

// Finalize of bit-serial products: a tile of the search's columns, panel by panel, whose parts are `pitch` vectors apart. `_rows`: of one
// scale, those of a panel behind those of the one before.
#define VITRO_LUT_FINALIZE_ROWS(name, stage, form, group)                                                                                 \
  void qf_##name##_rows_g##group(const HVX_Vector* weighted, const HVX_Vector* scales, const int32_t* x, int32_t factor, uint32_t panels, \
                                 HVX_Vector* y) {                                                                                         \
    constexpr uint32_t kBlocks = kMostTileColumns / group;                                                                                \
    for (uint32_t p = 0; p < panels; ++p, weighted += 4 * kBlocks, scales += 2, y += 4) {                                                 \
      stage<Isa, form, Scales::of_rows>(weighted, {}, scales, x, factor, kBlocks, y);                                                     \
    }                                                                                                                                     \
  }
#define VITRO_LUT_FINALIZE(name, stage, form, group)                                                                                  \
  void qf_##name##_g##group(const HVX_Vector* weighted, ZeroFields zeros, const HVX_Vector* scales, const int32_t* x, int32_t factor, \
                            uint32_t pitch, uint32_t panels, HVX_Vector* y) {                                                         \
    constexpr uint32_t kBlocks = kMostTileColumns / group;                                                                            \
    for (uint32_t p = 0; p < panels; ++p, weighted += 4 * kBlocks, zeros.bytes += kVectorBytes, scales += pitch, y += 4) {            \
      stage<Isa, form>(weighted, zeros, scales, x, factor, kBlocks, y);                                                               \
    }                                                                                                                                 \
  }
#define VITRO_LUT_FINALIZE_GROUPS(name, stage, form) \
  VITRO_LUT_FINALIZE(name, stage, form, 32) VITRO_LUT_FINALIZE(name, stage, form, 64) VITRO_LUT_FINALIZE(name, stage, form, 128)
VITRO_LUT_FINALIZE_GROUPS(lut_finalize, lut_finalize, Zeros::same)
VITRO_LUT_FINALIZE_GROUPS(lut_finalize_zeros, lut_finalize, Zeros::of_blocks)
VITRO_LUT_FINALIZE_GROUPS(lut_finalize_signs, lut_finalize, Zeros::signs)
VITRO_LUT_FINALIZE_GROUPS(lut_finalize_rounded, lut_finalize_rounded, Zeros::same)  // with tables of int8
VITRO_LUT_FINALIZE_GROUPS(lut_finalize_rounded_zeros, lut_finalize_rounded, Zeros::of_blocks)
VITRO_LUT_FINALIZE_GROUPS(lut_finalize_wide, lut_finalize_wide, Zeros::same)  // of activations in 14 bits
VITRO_LUT_FINALIZE_GROUPS(lut_finalize_wide_zeros, lut_finalize_wide, Zeros::of_blocks)
VITRO_LUT_FINALIZE_GROUPS(lut_finalize_wide_signs, lut_finalize_wide, Zeros::signs)
#define VITRO_LUT_FINALIZE_ROWS_GROUPS(name, stage, form) \
  VITRO_LUT_FINALIZE_ROWS(name, stage, form, 32)          \
  VITRO_LUT_FINALIZE_ROWS(name, stage, form, 64) VITRO_LUT_FINALIZE_ROWS(name, stage, form, 128)
VITRO_LUT_FINALIZE_ROWS_GROUPS(lut_finalize, lut_finalize, Zeros::same)
VITRO_LUT_FINALIZE_ROWS_GROUPS(lut_finalize_signs, lut_finalize, Zeros::signs)
VITRO_LUT_FINALIZE_ROWS_GROUPS(lut_finalize_rounded, lut_finalize_rounded, Zeros::same)
VITRO_LUT_FINALIZE_ROWS_GROUPS(lut_finalize_wide, lut_finalize_wide, Zeros::same)
VITRO_LUT_FINALIZE_ROWS_GROUPS(lut_finalize_wide_signs, lut_finalize_wide, Zeros::signs)

// Two-level dequantisation; `z`: with zero points of blocks; `r`: one scale per row. Groups of 128 cost what groups of 64 do, but for half
// the scales.
#define VITRO_LUT_DEQUANTISE(bits, group)                                                                                             \
  void qf_lut_dequantise_w##bits##g##group(const HVX_Vector* planes, const HVX_Vector* scales, const HVX_Vector* repack,              \
                                           const HVX_Vector* values, uint32_t blocks, HVX_Vector* out) {                              \
    lut_dequantise<Isa, bits, group, Zeros::same>(planes, {}, scales, *repack, *values, blocks, out);                                 \
  }                                                                                                                                   \
  void qf_lut_dequantise_w##bits##g##group##r(const HVX_Vector* planes, const HVX_Vector* scales, const HVX_Vector* repack,           \
                                              const HVX_Vector* values, uint32_t blocks, HVX_Vector* out) {                           \
    lut_dequantise<Isa, bits, group, Zeros::same, Scales::of_rows>(planes, {}, scales, *repack, *values, blocks, out);                \
  }                                                                                                                                   \
  void qf_lut_dequantise_w##bits##g##group##z(const HVX_Vector* planes, ZeroFields zeros, const HVX_Vector* scales,                   \
                                              const HVX_Vector* repack, const HVX_Vector* values, uint32_t blocks, HVX_Vector* out) { \
    lut_dequantise<Isa, bits, group, Zeros::of_blocks>(planes, zeros, scales, *repack, *values, blocks, out);                         \
  }
#define VITRO_LUT_DEQUANTISE_GROUPS(bits) VITRO_LUT_DEQUANTISE(bits, 32) VITRO_LUT_DEQUANTISE(bits, 64)
VITRO_LUT_DEQUANTISE_GROUPS(1)
VITRO_LUT_DEQUANTISE_GROUPS(2)
VITRO_LUT_DEQUANTISE_GROUPS(3)
VITRO_LUT_DEQUANTISE_GROUPS(4)

// Two-level dequantisation with scales in the second table: 64 columns of a panel with tables that are `pitch` vectors from those of the
// next ones, `_g32` of two groups; and the tables of a group, `z` with zero points of blocks.
#define VITRO_SCALED(bits)                                                                                                               \
  void qf_scaled_unit_w##bits(const HVX_Vector* planes, const HVX_Vector* repack, const HVX_Vector* tables, uint32_t pitch,              \
                              uint32_t units, uint32_t stride, HVX_Vector* out) {                                                        \
    const HVX_Vector codes = *repack, marks = *vectors_at(kScaledMarks<bits>.words);                                                     \
    for (uint32_t u = 0; u < units; ++u, planes += 8 * bits, tables += pitch, out += 32) {                                               \
      scaled_unit<Isa, bits, true>(planes, codes, marks, tables, tables, stride, out);                                                   \
    }                                                                                                                                    \
  }                                                                                                                                      \
  void qf_scaled_unit_w##bits##_g32(const HVX_Vector* planes, const HVX_Vector* repack, const HVX_Vector* tables, uint32_t units,        \
                                    uint32_t stride, HVX_Vector* out) {                                                                  \
    constexpr uint32_t kTables = ScaledTables<bits>::kVectors;                                                                           \
    const HVX_Vector codes = *repack, marks = *vectors_at(kScaledMarks<bits>.words);                                                     \
    for (uint32_t u = 0; u < units; ++u, planes += 8 * bits, tables += 2 * kTables, out += 32) {                                         \
      scaled_unit<Isa, bits, false>(planes, codes, marks, tables, tables + kTables, stride, out);                                        \
    }                                                                                                                                    \
  }                                                                                                                                      \
  void qf_scaled_tables_w##bits(const HVX_Vector* scales, const HVX_Vector* values, uint32_t blocks, HVX_Vector* tables) {               \
    for (uint32_t b = 0; b < blocks; ++b, scales += 2, tables += ScaledTables<bits>::kVectors) {                                         \
      scaled_tables<Isa, bits, Zeros::same>({}, 0, scales, values, tables);                                                              \
    }                                                                                                                                    \
  }                                                                                                                                      \
  void qf_scaled_tables_w##bits##z(ZeroFields zeros, const HVX_Vector* scales, const HVX_Vector* values, uint32_t blocks,                \
                                   HVX_Vector* tables) {                                                                                 \
    for (uint32_t b = 0; b < blocks; ++b, scales += 2, tables += ScaledTables<bits>::kVectors) {                                         \
      scaled_tables<Isa, bits, Zeros::of_blocks>(zeros, b, scales, values, tables);                                                      \
    }                                                                                                                                    \
  }
VITRO_SCALED(1)
VITRO_SCALED(2)
VITRO_SCALED(3)
VITRO_SCALED(4)

// Softmax of a pair of rows, scores in tiles: its three passes, the second one in three ways.
void qf_softmax_max(const HVX_Vector* s, uint32_t count, HVX_Vector* top) { *top = row_max<Isa>(s, kTilePairs, count, *top); }
void qf_softmax_exp_table(const HVX_Vector* s, uint32_t count, const HVX_Vector* top, const uint16_t* table, HVX_Vector* p) {
  row_exp<Isa, ExpByTable>(s, kTilePairs, count, *top, table, p);
}
void qf_softmax_exp_f16(const HVX_Vector* s, uint32_t count, const HVX_Vector* top, HVX_Vector* p) {
  row_exp<Isa, ExpByHalf>(s, kTilePairs, count, *top, nullptr, p);
}
void qf_softmax_exp_f32(const HVX_Vector* s, uint32_t count, const HVX_Vector* top, HVX_Vector* p) {
  row_exp<Isa, ExpByFloat>(s, kTilePairs, count, *top, nullptr, p);
}
// Attention's steps as they run: a block of 128 keys for each pair of rows, and the results of a head, 64 columns of each pair.
#define VITRO_ATTENTION(name, exp)                                                                                                      \
  void qf_attention_##name(const HVX_Vector* s, uint32_t pairs, const uint16_t* table, const HVX_Vector* diagonal, HVX_Vector* top,     \
                           HVX_Vector* sum, HVX_Vector* kept, HVX_Vector* p) {                                                          \
    for (uint32_t i = 0; i < pairs; ++i) {                                                                                              \
      softmax_pair<Isa, exp>(s + i, kKeyBlock / kTile, table, diagonal[i], top[i], sum[i], kept + i, p + i);                            \
    }                                                                                                                                   \
  }
VITRO_ATTENTION(exp_table, ExpByTable)
VITRO_ATTENTION(exp_f16, ExpByHalf)
VITRO_ATTENTION(exp_f32, ExpByFloat)
void qf_attention_quotient(const HVX_Vector* o, uint32_t pairs, const int32_t* shares, uint32_t pitch, HVX_Vector* rows) {
  for (uint32_t i = 0; i < pairs; ++i, shares += 2, rows += 2 * pitch) {
    const Isa::Pair both = result_rows<Isa>(o[i], o[kTilePairs + i], shares[0], shares[1]);
    rows[0] = both.lo;
    rows[pitch] = both.hi;
  }
}

void qf_softmax_sum(const HVX_Vector* p, uint32_t count, const HVX_Vector* kept, HVX_Vector* sum) {
  *sum = new_sum<Isa>(*kept, *sum, row_sum<Isa>(p, kTilePairs, count));
}

}  // extern "C"

}  // namespace vitro::hexagon
