// Bit-serial products of activations in 14 bits (variant::kInt16Tables; T-MAN 4.1, Table 1): as in lut_kernels.cpp, but an entry fills its
// 16 bits, so Linear widens whatever it finds by the multiplication that weights its plane, and Finalize has sums of more than 16 bits.
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/signs.hpp"
#include "engine/kernels/hexagon/hvx_worker/tile_shapes.hpp"
#include "engine/kernels/hexagon/lut_stages.hpp"

namespace vitro::hexagon {
namespace {

// All planes share the accumulators: four vectors of words.
template <uint32_t kBits, uint32_t kGroup, uint32_t kTables>
[[gnu::always_inline]] inline void linear(const unsigned char* planes, uint32_t pitch, uint32_t panels, const HVX_Vector* tables,
                                          int32_t* weighted, uint32_t row) {
  constexpr uint32_t kOfBlock = kGroup / kTableColumns;
  const HVX_Vector zero = Q6_V_vzero();
  HVX_Vector held[kTables];
#pragma unroll
  for (uint32_t t = 0; t < kTables; ++t) held[t] = tables[t];
  for (uint32_t p = 0; p < panels; ++p, planes += pitch, weighted += row) {
    const HVX_Vector* w = vectors_at(planes);
    HVX_Vector* out = vectors_at(weighted);
#pragma unroll
    for (uint32_t b = 0; b < kTables; b += kOfBlock, out += 4) {
      HVX_VectorPair even = Q6_W_vcombine_VV(zero, zero), odd = even;
      const auto add = [&](HVX_VectorPair found, HVX_Vector weight) {
        even = Q6_Ww_vmpyacc_WwVhVh(even, Q6_V_lo_W(found), weight);
        odd = Q6_Ww_vmpyacc_WwVhVh(odd, Q6_V_hi_W(found), weight);
      };
#pragma unroll
      for (uint32_t t = 0; t < kOfBlock; ++t, w += 2 * kBits) {
        __asm__ volatile("" : : : "memory");  // indices further ahead would spill
#pragma unroll
        for (uint32_t i = 0; i < kBits; ++i) {
          const HVX_Vector first = w[i], second = w[kBits + i], weight = splat_half(1 << i);
          add(look_up<0>(first, held[b + t]), weight);
          add(look_up<1>(shifted_nibbles(first), held[b + t]), weight);
          add(look_up<2>(second, held[b + t]), weight);
          add(look_up<3>(shifted_nibbles(second), held[b + t]), weight);
        }
      }
      out[0] = Q6_V_lo_W(even);
      out[1] = Q6_V_hi_W(even);
      out[2] = Q6_V_lo_W(odd);
      out[3] = Q6_V_hi_W(odd);
    }
  }
}

template <uint32_t kBits, uint32_t kGroup>
struct Linear {
  template <uint32_t kTables>
  [[gnu::always_inline]] static void run(const TileColumns& c) {
    linear<kBits, kGroup, kTables>(c.planes, c.pitch, c.panels, vectors_at(c.tables), c.weighted, c.row);
  }
};

template <Zeros kZeros>
void finalize(const int32_t* weighted, const ZeroFields& zeros, const ActivationScale* x, int32_t factor, uint32_t blocks, int32_t* dots) {
  const HVX_Vector* in = vectors_at(weighted);
  HVX_Vector* out = vectors_at(dots);
  for (uint32_t b = 0; b < blocks; ++b, in += 4, out += 4) block_dots<HvxIntegers, kZeros, true>(in, zeros, b, factor, x[b].sum, out);
}

}  // namespace

extern "C" {

// Two columns of a group in a word: each entry is two of their signed sums.
[[gnu::noinline]] void hvx_lut_precompute_wide(const int16_t* x, uint32_t groups, uint16_t* tables) {
  const HVX_Vector first = *vectors_at(&kWideSigns.lane[0]), second = *vectors_at(&kWideSigns.lane[1]);
  const HVX_VectorPred lower = Q6_Q_vsetq_R(64);
  const auto* words = reinterpret_cast<const int32_t*>(x);
  HVX_Vector* out = vectors_at(tables);
  const auto sums = [&](uint32_t group) {  // of it, and of the second one after it
    const HVX_Vector a = Q6_V_vmux_QVV(lower, splat(words[2 * group]), splat(words[2 * group + 4]));
    const HVX_Vector b = Q6_V_vmux_QVV(lower, splat(words[2 * group + 1]), splat(words[2 * group + 5]));
    return Q6_Vw_vdmpyacc_VwVhVh_sat(Q6_Vw_vdmpy_VhVh_sat(first, a), second, b);
  };
  for (uint32_t g = 0; g < groups; g += 4) *out++ = Q6_Vh_vshuffe_VhVh(sums(g + 1), sums(g));
}

[[gnu::noinline]] void hvx_lut_linear_wide(const unsigned char* planes, uint32_t pitch, uint32_t panels, const uint16_t* tables,
                                           uint32_t count, uint32_t bits, uint32_t group, int32_t* weighted) {
  by_bits<Linear>({planes, pitch, panels, reinterpret_cast<const unsigned char*>(tables), weighted, 0}, count, bits, group);
}

[[gnu::noinline]] void hvx_lut_finalize_wide(const int32_t* weighted, const ZeroFields& zeros, Zeros form, const ActivationScale* x,
                                             int32_t factor, uint32_t blocks, int32_t* dots) {
  if (form == Zeros::same) return finalize<Zeros::same>(weighted, zeros, x, factor, blocks, dots);
  if (form == Zeros::of_blocks) return finalize<Zeros::of_blocks>(weighted, zeros, x, factor, blocks, dots);
  return finalize<Zeros::signs>(weighted, zeros, x, factor, blocks, dots);
}

}  // extern "C"

}  // namespace vitro::hexagon
