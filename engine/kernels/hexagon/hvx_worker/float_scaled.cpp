// Two-level dequantisation by tables that hold scales as a phone would run it (float_isa.hpp).
#include "engine/kernels/hexagon/hvx_worker/float_isa.hpp"
#include "engine/kernels/hexagon/scaled_tables.hpp"

namespace vitro::hexagon {

extern "C" {

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

}  // extern "C"

}  // namespace vitro::hexagon
