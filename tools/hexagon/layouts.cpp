// The layouts and conversions of layout_stages.hpp in qfloat, as a phone would run them. Never linked: tools/hexagon/packet_costs.py writes
// the packets of the loops into configs/kernels/hexagon-v75-layouts.yaml. The worker runs them in IEEE floats (layout_kernels.cpp).
#include "engine/kernels/hexagon/hvx_worker/hvx_float.hpp"
#include "engine/kernels/hexagon/layout_stages.hpp"

namespace vitro::hexagon {

extern "C" {

void qf_uncoalesced_q4(const unsigned char* blocks, const HVX_Vector* values, const HVX_Vector* order, uint32_t trips, HVX_Vector* out) {
  uncoalesced_q4<Hvx>(blocks, *values, *order, trips, out);
}

void qf_scatter_q4(const unsigned char* blocks, const HVX_Vector* values, const HVX_Vector* places, uint32_t groups, uint32_t pitch,
                   uintptr_t column) {
  scatter_q4<Hvx>(blocks, *values, *places, groups, pitch, column);
}

void qf_convert_planes_w4(const HVX_Vector* planes, const HVX_Vector* scales, const HVX_Vector* zeros, uint32_t trips, HVX_Vector* out) {
  convert_planes_w4<Hvx>(planes, scales, zeros, trips, out);
}

void qf_convert_planes_w4_in_halves(const HVX_Vector* planes, const HVX_Vector* scales, const HVX_Vector* zeros, uint32_t trips,
                                    HVX_Vector* out) {
  convert_planes_w4_in_halves<Hvx>(planes, scales, zeros, trips, out);
}

}  // extern "C"

}  // namespace vitro::hexagon
