// The float stages of blocks, activations and attention as a phone would run them (float_isa.hpp); those of bit planes are in
// float_finalize.cpp, float_planes.cpp and float_scaled.cpp.
#include "engine/kernels/hexagon/attention_layout.hpp"
#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/float_stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/float_isa.hpp"
#include "engine/kernels/hexagon/outlier_strips.hpp"

namespace vitro::hexagon {

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
