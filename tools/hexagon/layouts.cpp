// Dequantisation to fp16 without the layouts and tables of TTS-NPU and T-MAN: what these are compared with. Never linked:
// tools/hexagon/packet_costs.py writes the packets of the loops into configs/kernels/hexagon-v75-layouts.yaml.
#include "engine/kernels/hexagon/hvx_worker/hvx_float.hpp"

namespace vitro::hexagon {
namespace {

int scale_at(const unsigned char* block) {
  uint16_t scale;
  __builtin_memcpy(&scale, block, sizeof scale);
  return scale;
}

}  // namespace

// TTS-NPU 7.4, "HMX layout": groups of 32 lie in the order of HMX tiles, but each with its scale in front, 18 bytes apart.
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

// TTS-NPU 7.4, the common layout: groups of 32 along the depth as a file has them, which are columns of tiles. A group at a time: its 16
// bytes of codes in two halves of nibbles, its scale, and a scatter of 32 halfwords. `places`: their offsets in a tile, in the order in
// which they come out; columns of a tile are `pitch` bytes apart.
extern "C" void qf_scatter_q4(const unsigned char* blocks, const HVX_Vector* values, const HVX_Vector* places, uint32_t groups,
                              uint32_t pitch, uintptr_t tile) {
  constexpr int kLastByte = 65535;
  const HVX_Vector table = *values, offsets = *places;
  const HVX_VectorPred half = Q6_Q_vsetq_R(64);
  for (uint32_t g = 0; g < groups; ++g, blocks += 18, tile += pitch) {
    HVX_Vector codes;
    __builtin_memcpy(&codes, blocks + 2, sizeof codes);
    const HVX_VectorPair low = Q6_Wh_vlut16_VbVhR(codes, table, 0), high = Q6_Wh_vlut16_VbVhR(high_nibbles(codes), table, 0);
    const HVX_Vector a = Q6_V_lo_W(Q6_W_vshuff_VVR(Q6_V_hi_W(low), Q6_V_lo_W(low), -16));
    const HVX_Vector b = Q6_V_lo_W(Q6_W_vshuff_VVR(Q6_V_hi_W(high), Q6_V_lo_W(high), -16));
    const HVX_Vector q = Q6_V_lo_W(Q6_W_vshuff_VVR(b, a, -32));
    const HVX_Vector w = Hvx::to_half(Hvx::multiply(q, Q6_Vh_vsplat_R(scale_at(blocks))));
    Q6_vscatter_QRMVhV(half, tile, kLastByte, offsets, w);
  }
}

// T-MAN 6.5.1, "ConvertDQ": 4-bit weights in bit planes (bit j of byte k of plane i is bit i of element 8k + j) to codes by shifts and
// masks, then words, float32, less the zero point, times the scale, and fp16: 1024 weights a trip.
template <int kBit>
[[gnu::always_inline]] inline void convert_bit(const HVX_Vector* planes, HVX_Vector zero, HVX_Vector scale, HVX_Vector* __restrict out) {
  const HVX_Vector one = splat(0x01010101), magic = splat(0x4b000000);  // 2^23: codes are its last bits
  const auto bit = [&](int plane) { return Q6_Vh_vasl_VhR(Q6_V_vand_VV(Q6_Vub_vlsr_VubR(planes[plane], kBit), one), plane); };
  const HVX_Vector codes = Q6_V_vor_VV(Q6_V_vor_VV(bit(0), bit(1)), Q6_V_vor_VV(bit(2), bit(3)));
  const HVX_VectorPair halves = Q6_Wuh_vunpack_Vub(codes);
  const auto value = [&](HVX_Vector words) {
    return Q6_Vqf32_vmpy_Vqf32Vqf32(Q6_Vqf32_vsub_VsfVsf(Q6_V_vor_VV(words, magic), zero), scale);
  };
  const auto half = [&](HVX_VectorPair words) {
    return Q6_Vhf_equals_Wqf32(Q6_W_vcombine_VV(value(Q6_V_hi_W(words)), value(Q6_V_lo_W(words))));
  };
  out[2 * kBit] = half(Q6_Wuw_vunpack_Vuh(Q6_V_lo_W(halves)));
  out[2 * kBit + 1] = half(Q6_Wuw_vunpack_Vuh(Q6_V_hi_W(halves)));
}

extern "C" void qf_convert_planes_w4(const HVX_Vector* planes, const HVX_Vector* scales, const HVX_Vector* zeros, uint32_t trips,
                                     HVX_Vector* __restrict out) {
  for (uint32_t trip = 0; trip < trips; ++trip, planes += 4, ++scales, ++zeros, out += 16) {
    const HVX_Vector p[4] = {planes[0], planes[1], planes[2], planes[3]}, zero = *zeros;
    const HVX_Vector scale = Q6_Vqf32_vadd_VsfVsf(*scales, Q6_V_vzero());
    convert_bit<0>(p, zero, scale, out), convert_bit<1>(p, zero, scale, out), convert_bit<2>(p, zero, scale, out);
    convert_bit<3>(p, zero, scale, out), convert_bit<4>(p, zero, scale, out), convert_bit<5>(p, zero, scale, out);
    convert_bit<6>(p, zero, scale, out), convert_bit<7>(p, zero, scale, out);
  }
}

}  // namespace vitro::hexagon
