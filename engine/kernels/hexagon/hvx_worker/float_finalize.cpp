// Finalize of bit-serial products as a phone would run it (float_isa.hpp).
#include "engine/kernels/hexagon/hvx_worker/float_isa.hpp"
#include "engine/kernels/hexagon/lut_stages.hpp"

namespace vitro::hexagon {

extern "C" {

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

}  // extern "C"

}  // namespace vitro::hexagon
