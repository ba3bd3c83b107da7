// Dequantisation and exp by table look-up (TTS-NPU 5.2), and what they are compared with.
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

// Byte 2i of the broadcast's indices names the scale of element i of the first vector, byte 2i + 1 that of the second one.
// `first`: of the four words that hold a super-group's scales, two of them in each.
HVX_Vector broadcast_indices(uint32_t first) {
  const HVX_Vector upper = Q6_V_vmux_QVV(Q6_Q_vsetq_R(64), Q6_V_vzero(), splat_half(0x0101));
  return Q6_Vb_vadd_VbVb(Q6_Vb_vadd_VbVb(upper, splat_half(0x0200)), splat_half(static_cast<int32_t>(first * 0x0101)));
}

struct FourVectors {
  HVX_Vector part[4];
};

template <int kEven, int kOdd>
FourVectors look_up_both(HVX_Vector low, HVX_Vector high, HVX_Vector table) {
  const HVX_VectorPair a = look_up<kEven>(low, table), b = look_up<kOdd>(high, table);
  return {{Q6_V_lo_W(a), Q6_V_hi_W(a), Q6_V_lo_W(b), Q6_V_hi_W(b)}};
}

void store(const FourVectors& v, HVX_Vector* out) {
  for (int i = 0; i < 4; ++i) out[i] = v.part[i];
}

}  // namespace

extern "C" {

// Eight super-groups of 256 share one vector of scales: 8 fp16 each, no instruction to bring them into place.
[[gnu::noinline]] void hvx_dequantise(const unsigned char* nibbles, const uint16_t* scales, const uint16_t* table, uint32_t vectors,
                                      uint16_t* q, uint16_t* spread) {
  const HVX_Vector values = *vectors_at(table);
  const HVX_Vector indices[4] = {broadcast_indices(0), broadcast_indices(4), broadcast_indices(8), broadcast_indices(12)};
  const HVX_Vector* in = vectors_at(nibbles);
  const HVX_Vector* s = vectors_at(scales);
  HVX_Vector *out = vectors_at(q), *wide = vectors_at(spread);
  for (uint32_t v = 0; v < vectors; v += 8, ++s) {
    const HVX_Vector eight = *s;
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i, ++in, out += 4, wide += 4) {
      store(look_up_both<0, 0>(*in, high_nibbles(*in), values), out);
      store(i < 4 ? look_up_both<0, 1>(indices[i % 4], indices[i % 4], eight) : look_up_both<2, 3>(indices[i % 4], indices[i % 4], eight),
            wide);
    }
  }
}

[[gnu::noinline]] void hvx_values(const unsigned char* nibbles, const uint16_t* table, uint32_t vectors, uint16_t* q) {
  const HVX_Vector values = *vectors_at(table);
  const HVX_Vector* in = vectors_at(nibbles);
  HVX_Vector* out = vectors_at(q);
  for (uint32_t v = 0; v < vectors; ++v, ++in, out += 4) store(look_up_both<0, 0>(*in, high_nibbles(*in), values), out);
}

// Groups of 128 with a table of their own (T-MAN 4.1): scale and zero point are in it, nothing is left to multiply.
[[gnu::noinline]] void hvx_dequantise_fused(const unsigned char* nibbles, const uint16_t* tables, uint32_t vectors, uint16_t* w) {
  const HVX_Vector* in = vectors_at(nibbles);
  const HVX_Vector* t = vectors_at(tables);
  HVX_Vector* out = vectors_at(w);
  for (uint32_t v = 0; v < vectors; v += 2, ++t, in += 2, out += 8) {
    const HVX_Vector four = *t;
    store(look_up_both<0, 1>(in[0], high_nibbles(in[0]), four), out);
    store(look_up_both<2, 3>(in[1], high_nibbles(in[1]), four), out + 4);
  }
}

[[gnu::noinline]] void hvx_unpack(const unsigned char* nibbles, uint32_t vectors, int16_t* q) {
  const HVX_Vector mask = splat(0x0f0f0f0f), eight = splat(0x08080808);
  HVX_Vector* out = vectors_at(q);
  for (const HVX_Vector* in = vectors_at(nibbles), *end = in + vectors; in != end; ++in, out += 4) {
    const HVX_Vector low = Q6_Vb_vsub_VbVb(Q6_V_vand_VV(*in, mask), eight);
    const HVX_Vector high = Q6_Vb_vsub_VbVb(Q6_V_vand_VV(high_nibbles(*in), mask), eight);
    const HVX_VectorPair a = Q6_Wh_vsxt_Vb(low), b = Q6_Wh_vsxt_Vb(high);
    store({{Q6_V_lo_W(a), Q6_V_hi_W(a), Q6_V_lo_W(b), Q6_V_hi_W(b)}}, out);
  }
}

[[gnu::noinline]] void hvx_copy(const unsigned char* from, uint32_t vectors, unsigned char* to) {
  const HVX_Vector* in = vectors_at(from);
  HVX_Vector* out = vectors_at(to);
  for (uint32_t v = 0; v < vectors; ++v) out[v] = in[v];
}

// x <= 0: without its sign, fp16 has 32768 values, and shifted left by one they are the byte offsets of a table of 64 KiB.
[[gnu::noinline]] void hvx_exp(const uint16_t* x, const uint16_t* table, uint32_t vectors, uint16_t* y) {
  constexpr int32_t kLastByte = 65535;
  const HVX_Vector* in = vectors_at(x);
  HVX_Vector* out = vectors_at(y);
  for (uint32_t v = 0; v < vectors; ++v) {
    Q6_vgather_ARMVh(out + v, reinterpret_cast<uintptr_t>(table), kLastByte, Q6_Vh_vasl_VhR(in[v], 1));
  }
}

}  // extern "C"

}  // namespace vitro::hexagon
