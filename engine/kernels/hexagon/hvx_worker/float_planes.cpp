// Two-level dequantisation of bit planes as a phone would run it (float_isa.hpp).
#include "engine/kernels/hexagon/hvx_worker/float_isa.hpp"
#include "engine/kernels/hexagon/lut_stages.hpp"

namespace vitro::hexagon {

extern "C" {

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

}  // extern "C"

}  // namespace vitro::hexagon
