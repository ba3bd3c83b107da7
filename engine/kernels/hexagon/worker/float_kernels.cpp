// The qfloat stages as a phone would run them. Compiled for V75 and never linked: the emulator has no qfloat, so their price
// is the packets of their loops (docs/hexagon.md).
#include "engine/kernels/hexagon/float_stages.hpp"
#include "engine/kernels/hexagon/worker/hvx_float.hpp"

namespace vitro::hexagon {

extern "C" {

void qf_dequantise_q4(const HVX_Vector* in, const HVX_Vector* scales, const HVX_Vector* indices, const HVX_Vector* values, uint32_t vectors,
                      HVX_Vector* out) {
  dequantise_q4<Hvx>(in, scales, indices, *values, vectors, out);
}

void qf_convert_q4(const HVX_Vector* in, const HVX_Vector* scales, const HVX_Vector* indices, uint32_t vectors, HVX_Vector* out) {
  convert_q4<Hvx>(in, scales, indices, vectors, out);
}

void qf_dequantise_q8(const HVX_Vector* in, const HVX_Vector* scales, const HVX_Vector* indices, uint32_t vectors, HVX_Vector* out) {
  dequantise_q8<Hvx>(in, scales, *indices, vectors, out);
}

void qf_accumulate(const HVX_Vector* dots, const HVX_Vector* scales, const int32_t* x_scales, uint32_t pairs, HVX_Vector* y) {
  *y = accumulate<Hvx>(dots, scales, x_scales, pairs);
}

}  // extern "C"

}  // namespace vitro::hexagon
