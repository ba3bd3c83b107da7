// The layout between TTS-NPU's baseline and its own (section 7.4, "HMX layout"): groups of 32 already lie in the order of HMX tiles, but
// each with its scale in front, 18 bytes apart. Never linked: configs/kernels/hexagon-v75-layouts.yaml has the packets of its loop,
// counted as tools/hexagon/packet_costs.py counts its qfloat loops.
#include "engine/kernels/hexagon/worker/hvx_float.hpp"

namespace vitro::hexagon {
namespace {

int scale_at(const unsigned char* block) {
  uint16_t scale;
  __builtin_memcpy(&scale, block, sizeof scale);
  return scale;
}

}  // namespace

// Four groups a trip, as many as one load brings. `order` brings their 64 bytes of codes to the front.
extern "C" void qf_uncoalesced_q4(const unsigned char* blocks, const HVX_Vector* values, const HVX_Vector* order, uint32_t trips,
                                  HVX_Vector* __restrict out) {
  const HVX_Vector table = *values, to_front = *order;
  const HVX_VectorPred half = Q6_Q_vsetq_R(64);
  for (uint32_t trip = 0; trip < trips; ++trip, blocks += 72, out += 2) {
    HVX_Vector a;
    __builtin_memcpy(&a, blocks, sizeof a);
    const HVX_Vector codes = Q6_V_vrdelta_VV(a, to_front);
    const HVX_VectorPair low = Q6_Wh_vlut16_VbVhR(codes, table, 0), high = Q6_Wh_vlut16_VbVhR(high_nibbles(codes), table, 0);
    const HVX_VectorPair q = Q6_W_vshuff_VVR(Q6_V_lo_W(high), Q6_V_lo_W(low), -32);
    const HVX_Vector x = Q6_V_vmux_QVV(half, Q6_Vh_vsplat_R(scale_at(blocks)), Q6_Vh_vsplat_R(scale_at(blocks + 18)));
    const HVX_Vector y = Q6_V_vmux_QVV(half, Q6_Vh_vsplat_R(scale_at(blocks + 36)), Q6_Vh_vsplat_R(scale_at(blocks + 54)));
    out[0] = Hvx::to_half(Hvx::multiply(Q6_V_lo_W(q), x));
    out[1] = Hvx::to_half(Hvx::multiply(Q6_V_hi_W(q), y));
  }
}

}  // namespace vitro::hexagon
