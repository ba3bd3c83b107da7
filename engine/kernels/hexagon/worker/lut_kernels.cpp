// Bit-serial matrix-vector product by table look-up (T-MAN 4.3; the tables are T-MAC's). Four consecutive activations make a
// table of their 16 signed sums; a nibble of weights, one bit of each of four columns, is the index. Look-ups run over rows.
#include "engine/kernels/hexagon/lut_stages.hpp"
#include "engine/kernels/hexagon/worker/hvx_integers.hpp"
#include "engine/kernels/hexagon/worker/kernels.hpp"
#include "engine/kernels/hexagon/worker/signs.hpp"

namespace vitro::hexagon {
namespace {

// Look-ups of one bit plane of a block, added to `acc`: 16 columns per vector of tables.
template <uint32_t kBits, uint32_t kTables>
HVX_VectorPair add_plane(HVX_VectorPair acc, const HVX_Vector* indices, const HVX_Vector (&tables)[kTables]) {
#pragma unroll
  for (uint32_t t = 0; t < kTables; ++t) {
    const HVX_Vector first = indices[2 * t * kBits], second = indices[(2 * t + 1) * kBits];
    acc = Q6_Wh_vadd_WhWh(acc, look_up<0>(first, tables[t]));
    acc = Q6_Wh_vadd_WhWh(acc, look_up<1>(high_nibbles(first), tables[t]));
    acc = Q6_Wh_vadd_WhWh(acc, look_up<2>(second, tables[t]));
    acc = Q6_Wh_vadd_WhWh(acc, look_up<3>(high_nibbles(second), tables[t]));
  }
  return acc;
}

// How many planes, weighted 1, 2, 4, ..., add up within 16 bits: a table's entry is at most 508.
constexpr uint32_t planes_together(uint32_t group) {
  uint32_t planes = 1;
  while (508u * (group / 4) * ((2u << planes) - 1) <= 32767) ++planes;
  return planes;
}

// weighted = sum of 2^i A_i: planes that fit into 16 bits together, by Horner's rule, then widened and weighted together.
template <uint32_t kBits, uint32_t kGroup>
void linear(const unsigned char* panel, const uint16_t* tables, uint32_t blocks, int32_t* weighted) {
  constexpr uint32_t kTables = kGroup / 16, kTogether = planes_together(kGroup);
  const HVX_Vector* w = vectors_at(panel);
  const HVX_Vector* t = vectors_at(tables);
  HVX_Vector* out = vectors_at(weighted);
  for (uint32_t b = 0; b < blocks; ++b, w += kGroup / 8 * kBits, t += kTables, out += 4) {
    HVX_Vector held[kTables];
#pragma unroll
    for (uint32_t i = 0; i < kTables; ++i) held[i] = t[i];
    HVX_VectorPair even = Q6_W_vcombine_VV(Q6_V_vzero(), Q6_V_vzero()), odd = even;
#pragma unroll
    for (uint32_t first = 0; first < kBits; first += kTogether) {
      const uint32_t count = kBits - first < kTogether ? kBits - first : kTogether;
      HVX_VectorPair sum = Q6_W_vcombine_VV(Q6_V_vzero(), Q6_V_vzero());
#pragma unroll
      for (uint32_t i = count; i-- > 0;) {
        __asm__ volatile("" : : : "memory");  // one plane's indices at a time: 32 registers hold no more without spilling
        if (i + 1 < count) sum = Q6_Wh_vadd_WhWh(sum, sum);
        sum = add_plane<kBits, kTables>(sum, w + first + i, held);
      }
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

template <uint32_t kBits>
void linear_of(const unsigned char* panel, const uint16_t* tables, uint32_t group, uint32_t blocks, int32_t* weighted) {
  if (group == 32) return linear<kBits, 32>(panel, tables, blocks, weighted);
  if (group == 64) return linear<kBits, 64>(panel, tables, blocks, weighted);
  return linear<kBits, 128>(panel, tables, blocks, weighted);
}

template <Zeros kZeros>
void finalize(const int32_t* weighted, const unsigned char* zeros, const ActivationScale* x, int32_t factor, uint32_t blocks,
              int32_t* dots) {
  const HVX_Vector *in = vectors_at(weighted), *z = vectors_at(zeros);
  HVX_Vector* out = vectors_at(dots);
  for (uint32_t b = 0; b < blocks; ++b, in += 4, ++z, out += 4) block_dots<HvxIntegers, kZeros>(in, z, factor, x[b].sum, out);
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

[[gnu::noinline]] void hvx_lut_linear(const unsigned char* panel, const uint16_t* tables, uint32_t bits, uint32_t group, uint32_t blocks,
                                      int32_t* weighted) {
  switch (bits) {
    case 1:
      return linear_of<1>(panel, tables, group, blocks, weighted);
    case 2:
      return linear_of<2>(panel, tables, group, blocks, weighted);
    case 3:
      return linear_of<3>(panel, tables, group, blocks, weighted);
    default:
      return linear_of<4>(panel, tables, group, blocks, weighted);
  }
}

[[gnu::noinline]] void hvx_lut_finalize(const int32_t* weighted, const unsigned char* zeros, Zeros form, const ActivationScale* x,
                                        int32_t factor, uint32_t blocks, int32_t* dots) {
  if (form == Zeros::same) return finalize<Zeros::same>(weighted, zeros, x, factor, blocks, dots);
  if (form == Zeros::of_blocks) return finalize<Zeros::of_blocks>(weighted, zeros, x, factor, blocks, dots);
  return finalize<Zeros::signs>(weighted, zeros, x, factor, blocks, dots);
}

}  // extern "C"

}  // namespace vitro::hexagon
