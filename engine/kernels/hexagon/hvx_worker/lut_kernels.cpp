// Bit-serial matrix-vector product by table look-up (T-MAN 4.3; the tables are T-MAC's). Four consecutive activations make a
// table of their 16 signed sums; a nibble of weights, one bit of each of four columns, is the index. Look-ups run over rows.
#include "engine/kernels/hexagon/half.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/signs.hpp"
#include "engine/kernels/hexagon/hvx_worker/tile_shapes.hpp"
#include "engine/kernels/hexagon/lut_stages.hpp"

namespace vitro::hexagon {
namespace {

// How many planes, weighted 1, 2, 4, ..., add up within 16 bits: a table's entry is at most 508.
constexpr uint32_t planes_together(uint32_t group) {
  uint32_t planes = 1;
  while (508u * (group / 4) * ((2u << planes) - 1) <= 32767) ++planes;
  return planes;
}

// Vectors of indices between two barriers: the compiler would look further ahead, and spill what it finds.
constexpr uint32_t kIndices = 16;

// A tile's columns, kTables vectors of tables in registers, against `panels` panels: weighted = sum of 2^i A_i. A table meets all planes
// before the next one. Planes that fit into 16 bits together are added by Horner's rule, then widened and weighted.
template <uint32_t kBits, uint32_t kGroup, uint32_t kTables>
[[gnu::always_inline]] inline void linear(const unsigned char* planes, uint32_t pitch, uint32_t panels, const HVX_Vector* tables,
                                          int32_t* weighted, uint32_t row) {
  constexpr uint32_t kOfBlock = kGroup / kTableColumns, kTogether = planes_together(kGroup);
  constexpr uint32_t kStep = kIndices / (2 * kBits) > 1 ? kIndices / (2 * kBits) : 1;
  const HVX_Vector zero = Q6_V_vzero();
  HVX_Vector held[kTables];
#pragma unroll
  for (uint32_t t = 0; t < kTables; ++t) held[t] = tables[t];
  for (uint32_t p = 0; p < panels; ++p, planes += pitch, weighted += row) {
    const HVX_Vector* w = vectors_at(planes);
    HVX_Vector* out = vectors_at(weighted);
#pragma unroll
    for (uint32_t b = 0; b < kTables; b += kOfBlock, out += 4) {
      HVX_VectorPair sums[kBits];
#pragma unroll
      for (uint32_t i = 0; i < kBits; ++i) sums[i] = Q6_W_vcombine_VV(zero, zero);
#pragma unroll
      for (uint32_t t = 0; t < kOfBlock; ++t, w += 2 * kBits) {
        if (t % kStep == 0) __asm__ volatile("" : : : "memory");
#pragma unroll
        for (uint32_t i = 0; i < kBits; ++i) {
          const HVX_Vector first = w[i], second = w[kBits + i];
          HVX_VectorPair sum = sums[i];
          sum = Q6_Wh_vadd_WhWh(sum, look_up<0>(first, held[b + t]));
          sum = Q6_Wh_vadd_WhWh(sum, look_up<1>(high_nibbles(first), held[b + t]));
          sum = Q6_Wh_vadd_WhWh(sum, look_up<2>(second, held[b + t]));
          sums[i] = Q6_Wh_vadd_WhWh(sum, look_up<3>(high_nibbles(second), held[b + t]));
        }
      }
      HVX_VectorPair even = Q6_W_vcombine_VV(zero, zero), odd = even;
#pragma unroll
      for (uint32_t first = 0; first < kBits; first += kTogether) {
        const uint32_t count = kBits - first < kTogether ? kBits - first : kTogether;
        HVX_VectorPair sum = sums[first + count - 1];
#pragma unroll
        for (uint32_t i = count - 1; i-- > 0;) sum = Q6_Wh_vadd_WhWh(Q6_Wh_vadd_WhWh(sum, sum), sums[first + i]);
        const HVX_Vector weight = splat_half(1 << first);
        even = first == 0 ? Q6_Ww_vmpy_VhVh(Q6_V_lo_W(sum), weight) : Q6_Ww_vmpyacc_WwVhVh(even, Q6_V_lo_W(sum), weight);
        odd = first == 0 ? Q6_Ww_vmpy_VhVh(Q6_V_hi_W(sum), weight) : Q6_Ww_vmpyacc_WwVhVh(odd, Q6_V_hi_W(sum), weight);
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
  for (uint32_t b = 0; b < blocks; ++b, in += 4, out += 4) block_dots<HvxIntegers, kZeros>(in, zeros, b, factor, x[b].sum, out);
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

[[gnu::noinline]] void hvx_lut_linear(const unsigned char* planes, uint32_t pitch, uint32_t panels, const uint16_t* tables, uint32_t count,
                                      uint32_t bits, uint32_t group, int32_t* weighted) {
  by_bits<Linear>({planes, pitch, panels, reinterpret_cast<const unsigned char*>(tables), weighted, 0}, count, bits, group);
}

[[gnu::noinline]] void hvx_lut_finalize(const int32_t* weighted, const ZeroFields& zeros, Zeros form, const ActivationScale* x,
                                        int32_t factor, uint32_t blocks, int32_t* dots) {
  if (form == Zeros::same) return finalize<Zeros::same>(weighted, zeros, x, factor, blocks, dots);
  if (form == Zeros::of_blocks) return finalize<Zeros::of_blocks>(weighted, zeros, x, factor, blocks, dots);
  return finalize<Zeros::signs>(weighted, zeros, x, factor, blocks, dots);
}

[[gnu::noinline]] void float_accumulate(const int32_t* dots, const uint16_t* scales, uint32_t step, const ActivationScale* x,
                                        uint32_t blocks, uint32_t rows, bool more, float* y) {
  for (uint32_t row = 0; row < rows; ++row) {
    float acc = more ? y[row] : 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      const float weight = half_value(scales[b * step + row]);
      acc = __builtin_fmaf(static_cast<float>(dots[b * kLutPanelRows + row]), weight * x[b].scale, acc);
    }
    y[row] = acc;
  }
}

}  // extern "C"

}  // namespace vitro::hexagon
