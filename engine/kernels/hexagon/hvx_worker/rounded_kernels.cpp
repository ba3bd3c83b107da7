// Bit-serial products by tables of int8 (T-MAC's; variant::kInt8Tables): a byte per entry, so vlut32. What it finds is weighted and widened
// by one multiplication, while vlut16's halfwords need an addition each and a widening per block.
#include "engine/kernels/hexagon/half.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/signs.hpp"
#include "engine/kernels/hexagon/hvx_worker/tile_shapes.hpp"

namespace vitro::hexagon {
namespace {

// Two tables of exact sums, twice each, as halfwords.
HVX_Vector exact_sums(HVX_Vector signs, const int32_t* words) {
  return Q6_Vh_vpacke_VwVw(Q6_Vw_vrmpy_VbVb(signs, splat(words[1])), Q6_Vw_vrmpy_VbVb(signs, splat(words[0])));
}

// Columns of a block whose sums, weighted by planes, fit in 16 bits: an entry is at most 127.
constexpr uint32_t columns_together(uint32_t bits, uint32_t group) {
  return 127u * ((1u << bits) - 1) * (group / 4) <= 32767 ? group : group / 2;
}

// As in lut_kernels.cpp: tables in registers against `panels` panels. All planes share two accumulators.
template <uint32_t kBits, uint32_t kGroup, uint32_t kTables>
[[gnu::always_inline]] inline void linear(const unsigned char* planes, uint32_t pitch, uint32_t panels, const HVX_Vector* tables,
                                          int32_t* weighted, uint32_t row) {
  constexpr uint32_t kTogether = columns_together(kBits, kGroup), kPart = kTogether / kTableColumns, kOfBlock = kGroup / kTableColumns;
  const HVX_Vector one = splat_half(1);
  HVX_Vector held[kTables];
#pragma unroll
  for (uint32_t t = 0; t < kTables; ++t) held[t] = tables[t];
  for (uint32_t p = 0; p < panels; ++p, planes += pitch, weighted += row) {
    const HVX_Vector* w = vectors_at(planes);
    HVX_Vector* out = vectors_at(weighted);
#pragma unroll
    for (uint32_t b = 0; b < kTables; b += kOfBlock, out += 4) {
      HVX_VectorPair even = Q6_W_vcombine_VV(Q6_V_vzero(), Q6_V_vzero()), odd = even;
#pragma unroll
      for (uint32_t part = 0; part < kOfBlock; part += kPart) {
        if (kPart < kOfBlock) __asm__ volatile("" : : : "memory");  // the other part's indices would spill
        HVX_VectorPair sum = Q6_W_vcombine_VV(Q6_V_vzero(), Q6_V_vzero());
#pragma unroll
        for (uint32_t t = 0; t < kPart; ++t, w += 2 * kBits) {
#pragma unroll
          for (uint32_t plane = 0; plane < kBits; ++plane) {
            const HVX_Vector first = w[plane], second = w[kBits + plane], weight = splat(0x01010101 << plane), table = held[b + part + t];
            sum = Q6_Wh_vmpyacc_WhVubVb(sum, weight, look_up_bytes<0>(first, table));
            sum = Q6_Wh_vmpyacc_WhVubVb(sum, weight, look_up_bytes<1>(shifted_nibbles(first), table));
            sum = Q6_Wh_vmpyacc_WhVubVb(sum, weight, look_up_bytes<2>(second, table));
            sum = Q6_Wh_vmpyacc_WhVubVb(sum, weight, look_up_bytes<3>(shifted_nibbles(second), table));
          }
        }
        even = part == 0 ? Q6_Ww_vmpy_VhVh(Q6_V_lo_W(sum), one) : Q6_Ww_vmpyacc_WwVhVh(even, Q6_V_lo_W(sum), one);
        odd = part == 0 ? Q6_Ww_vmpy_VhVh(Q6_V_hi_W(sum), one) : Q6_Ww_vmpyacc_WwVhVh(odd, Q6_V_hi_W(sum), one);
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

}  // namespace

extern "C" {

// Entries are (sum * factor + 2^14) >> 15: one rounding multiplication.
[[gnu::noinline]] void hvx_lut_precompute_rounded(const int8_t* x, const RoundedScale* scales, uint32_t group, uint32_t blocks,
                                                  uint8_t* tables) {
  const HVX_Vector signs = *vectors_at(&kSigns);
  const auto* words = reinterpret_cast<const int32_t*>(x);
  HVX_Vector* out = vectors_at(tables);
  for (uint32_t b = 0; b < blocks; ++b) {
    const int32_t factor = scales[b].factor | scales[b].factor << 16;
    for (uint32_t c = 0; c < group; c += 16, words += 4) {
      const HVX_Vector low = Q6_Vh_vmpy_VhRh_s1_rnd_sat(exact_sums(signs, words), factor);
      const HVX_Vector high = Q6_Vh_vmpy_VhRh_s1_rnd_sat(exact_sums(signs, words + 2), factor);
      *out++ = Q6_Vb_vshuffe_VbVb(high, low);
    }
  }
}

[[gnu::noinline]] void hvx_lut_linear_rounded(const unsigned char* planes, uint32_t pitch, uint32_t panels, const uint8_t* tables,
                                              uint32_t count, uint32_t bits, uint32_t group, int32_t* weighted) {
  by_bits<Linear>({planes, pitch, panels, tables, weighted, 0}, count, bits, group);
}

[[gnu::noinline]] void float_accumulate_rounded(const int32_t* weighted, const uint16_t* scales, uint32_t step, const ZeroFields& zeros,
                                                Zeros form, const RoundedScale* x, int32_t steps, uint32_t blocks, uint32_t rows, bool more,
                                                float* y) {
  constexpr uint32_t kOffset[4] = {0, 2, 1, 3};  // of lut_byte()
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t byte = 4 * (row % 32) + kOffset[row / 32];
    float acc = more ? y[row] : 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      const uint32_t at = b * kLutPanelRows + row;
      const uint32_t bit = (zeros.first + b) * zeros.bits, mask = (1u << zeros.bits) - 1;
      const uint32_t fields = form == Zeros::of_blocks ? zeros.bytes[bit / 8 * zeros.pitch * kLutPanelRows + byte] : 0;
      const int32_t zero = static_cast<int32_t>(fields >> bit % 8 & mask), rest = (steps - 2 * zero) * x[b].sum;
      const float dot = __builtin_fmaf(static_cast<float>(weighted[at]), x[b].unit, static_cast<float>(rest) * 0.5f);
      acc = __builtin_fmaf(dot, half_value(scales[b * step + row]) * x[b].scale, acc);
    }
    y[row] = acc;
  }
}

}  // extern "C"

}  // namespace vitro::hexagon
