// Bit-serial matrix-vector product by table look-up (T-MAN 4.3; the tables are T-MAC's). Four consecutive activations make a
// table of their 16 signed sums; a nibble of weights, one bit of each of four columns, is the index. Look-ups run over rows.
#include "engine/kernels/hexagon/worker/hvx.hpp"
#include "engine/kernels/hexagon/worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kPairs = kBlockColumns / 8;  // of groups of four columns, in a block: one vector of indices each

// Signs of the four activations in entry e = lane % 16: bit j set means plus.
alignas(kVectorBytes) constinit const struct Signs {
  int8_t lane[32][4];
  constexpr Signs() : lane{} {
    for (int e = 0; e < 32; ++e) {
      for (int j = 0; j < 4; ++j) lane[e][j] = (e >> j & 1) != 0 ? 1 : -1;
    }
  }
} kSigns;

// All look-ups of one bit plane of a block: 64 sums of at most 508 leave room in 16 bits, and a block has 8.
template <uint32_t kBits>
HVX_VectorPair plane_sums(const HVX_Vector* indices, HVX_Vector first, HVX_Vector second) {
  HVX_VectorPair acc = look_up<0>(indices[0], first);
  acc = Q6_Wh_vadd_WhWh(acc, look_up<1>(high_nibbles(indices[0]), first));
  acc = Q6_Wh_vadd_WhWh(acc, look_up<2>(indices[kBits], first));
  acc = Q6_Wh_vadd_WhWh(acc, look_up<3>(high_nibbles(indices[kBits]), first));
  acc = Q6_Wh_vadd_WhWh(acc, look_up<0>(indices[2 * kBits], second));
  acc = Q6_Wh_vadd_WhWh(acc, look_up<1>(high_nibbles(indices[2 * kBits]), second));
  acc = Q6_Wh_vadd_WhWh(acc, look_up<2>(indices[3 * kBits], second));
  return Q6_Wh_vadd_WhWh(acc, look_up<3>(high_nibbles(indices[3 * kBits]), second));
}

// Finalize, its integer part: q = sum of 2^i (s_i + 1) / 2 over the planes' signs s_i, so
// sum of (q - zero) x = (sum of 2^i A_i + (2^bits - 1 - 2 zero) sum x) / 2, and the bracket is even.
template <uint32_t kBits>
void linear(const unsigned char* panel, const uint16_t* tables, const int32_t* sums, uint32_t zero, uint32_t blocks, int32_t* dots) {
  const HVX_Vector* w = vectors_at(panel);
  const HVX_Vector* t = vectors_at(tables);
  HVX_Vector* out = vectors_at(dots);
  const int32_t factor = (1 << kBits) - 1 - 2 * static_cast<int32_t>(zero);
  for (uint32_t b = 0; b < blocks; ++b, w += kPairs * kBits, t += 2, out += 4) {
    const HVX_Vector first = t[0], second = t[1];
    const HVX_Vector one = splat_half(1);
    HVX_VectorPair plane = plane_sums<kBits>(w, first, second);
    HVX_VectorPair even = Q6_Ww_vmpy_VhVh(Q6_V_lo_W(plane), one), odd = Q6_Ww_vmpy_VhVh(Q6_V_hi_W(plane), one);
#pragma unroll
    for (uint32_t i = 1; i < kBits; ++i) {
      __asm__ volatile("" : : : "memory");  // one plane's indices at a time: 32 registers hold no more without spilling
      plane = plane_sums<kBits>(w + i, first, second);
      even = Q6_Ww_vmpyacc_WwVhVh(even, Q6_V_lo_W(plane), splat_half(1 << i));
      odd = Q6_Ww_vmpyacc_WwVhVh(odd, Q6_V_hi_W(plane), splat_half(1 << i));
    }
    const HVX_Vector correction = splat(factor * sums[b]);
    out[0] = Q6_Vw_vasr_VwR(Q6_Vw_vadd_VwVw(Q6_V_lo_W(even), correction), 1);
    out[1] = Q6_Vw_vasr_VwR(Q6_Vw_vadd_VwVw(Q6_V_hi_W(even), correction), 1);
    out[2] = Q6_Vw_vasr_VwR(Q6_Vw_vadd_VwVw(Q6_V_lo_W(odd), correction), 1);
    out[3] = Q6_Vw_vasr_VwR(Q6_Vw_vadd_VwVw(Q6_V_hi_W(odd), correction), 1);
  }
}

}  // namespace

extern "C" {

// Four tables, of 16 columns, are one vector (look_up() has the places).
[[gnu::noinline]] void hvx_lut_precompute(const int8_t* x, uint32_t groups, uint16_t* tables) {
  const HVX_Vector signs = *vectors_at(&kSigns);
  const HVX_VectorPred lower = Q6_Q_vsetq_R(64);
  const auto* words = reinterpret_cast<const int32_t*>(x);
  HVX_Vector* out = vectors_at(tables);
  for (uint32_t g = 0; g < groups; g += 4) {
    const HVX_Vector even = Q6_V_vmux_QVV(lower, splat(words[g]), splat(words[g + 2]));
    const HVX_Vector odd = Q6_V_vmux_QVV(lower, splat(words[g + 1]), splat(words[g + 3]));
    *out++ = Q6_Vh_vshuffe_VhVh(Q6_Vw_vrmpy_VbVb(signs, odd), Q6_Vw_vrmpy_VbVb(signs, even));
  }
}

[[gnu::noinline]] void hvx_lut_linear(const unsigned char* panel, const uint16_t* tables, const int32_t* sums, uint32_t bits, uint32_t zero,
                                      uint32_t blocks, int32_t* dots) {
  switch (bits) {
    case 1:
      return linear<1>(panel, tables, sums, zero, blocks, dots);
    case 2:
      return linear<2>(panel, tables, sums, zero, blocks, dots);
    case 3:
      return linear<3>(panel, tables, sums, zero, blocks, dots);
    default:
      return linear<4>(panel, tables, sums, zero, blocks, dots);
  }
}

}  // extern "C"

}  // namespace vitro::hexagon
