// Sums of rows of weights. HVX makes floats of weights by integers, exactly; scalars multiply and add them, since HVX has no fused
// multiply-add, and a sum of the cores' rounds once for each row.
#include "engine/kernels/hexagon/add_layout.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

constexpr int32_t kSignBit = INT32_MIN, kInfinity = 0x7f800000, kNotANumber = 0x7fc00000;
constexpr uint32_t kLargestField = 31;  // of a half's exponent: infinities, and what is no number

// Words of integers below 2^24 times 2^(exponent - 25), as floats.
[[gnu::always_inline]] inline HVX_Vector floats_of(HVX_Vector integers, HVX_Vector exponent) {
  const HVX_Vector zeros = Q6_Vuw_vcl0_Vuw(integers), none = Q6_V_vzero();
  const HVX_Vector fraction = Q6_Vuw_vlsr_VuwR(Q6_Vw_vasl_VwVw(integers, zeros), 8);  // with its leading one, at bit 23
  const HVX_Vector field = Q6_Vw_vsub_VwVw(Q6_Vw_vadd_VwVw(exponent, splat(132)), zeros);
  return Q6_V_vmux_QVV(Q6_Q_vcmp_eq_VwVw(integers, none), none, Q6_Vw_vadd_VwVw(fraction, Q6_Vw_vasl_VwR(field, 23)));
}

// 32 halves, a word each.
[[gnu::always_inline]] inline HVX_Vector floats_of_halves(HVX_Vector halves) {
  const HVX_Vector field = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(halves, 10), splat(kLargestField)), fraction = Q6_V_vand_VV(halves, splat(0x3ff));
  const HVX_VectorPred normal = Q6_Q_vcmp_gt_VwVw(field, Q6_V_vzero()), finite = Q6_Q_vcmp_gt_VwVw(splat(kLargestField), field);
  const HVX_Vector significand = Q6_V_vmux_QVV(normal, Q6_V_vor_VV(fraction, splat(0x400)), fraction);
  const HVX_Vector numbers = floats_of(significand, Q6_Vw_vmax_VwVw(field, splat(1)));
  const HVX_Vector others = Q6_V_vor_VV(Q6_Vw_vasl_VwR(fraction, 13), splat(kInfinity));
  const HVX_Vector sign = Q6_Vw_vasl_VwR(Q6_V_vand_VV(halves, splat(0x8000)), 16);
  return Q6_V_vor_VV(Q6_V_vmux_QVV(finite, numbers, others), sign);
}

// 32 quants, a word each, times their block's scale. kFinite: which it is known to be.
template <bool kFinite>
[[gnu::always_inline]] inline HVX_Vector floats_of_quants(HVX_Vector quants, uint32_t scale) {
  const uint32_t field = scale >> 10 & kLargestField, fraction = scale & 0x3ff, exponent = field > 0 ? field : 1;
  const uint32_t significand = field > 0 ? fraction | 0x400 : fraction;
  const HVX_Vector size = Q6_Vw_vabs_Vw(quants);
  const HVX_Vector product = Q6_Vw_vmpyi_VwRh(size, static_cast<int32_t>(significand | significand << 16));
  const HVX_Vector sign = Q6_V_vxor_VV(Q6_V_vand_VV(quants, splat(kSignBit)), splat(static_cast<int32_t>((scale & 0x8000) << 16)));
  HVX_Vector numbers = floats_of(product, splat(static_cast<int32_t>(exponent)));
  if (!kFinite && field == kLargestField) {
    const HVX_Vector all = splat(fraction > 0 ? kNotANumber : kInfinity);
    numbers = Q6_V_vmux_QVV(Q6_Q_vcmp_eq_VwVw(size, Q6_V_vzero()), splat(kNotANumber), all);
  }
  return Q6_V_vor_VV(numbers, sign);
}

[[gnu::always_inline]] inline HVX_Vector bytes_as_words(HVX_Vector bytes) {
  return Q6_V_lo_W(Q6_Ww_vunpack_Vh(Q6_V_lo_W(Q6_Wh_vunpack_Vb(bytes))));
}
// Columns 0 to 15 of a block are low nibbles, the others high ones.
[[gnu::always_inline]] inline HVX_Vector nibbles_as_words(HVX_Vector nibbles) {
  constexpr int kHalf = kBlockColumns / 2;
  const HVX_Vector mask = splat(0x0f0f0f0f), low = Q6_V_vand_VV(nibbles, mask), high = Q6_V_vand_VV(shifted_nibbles(nibbles), mask);
  const HVX_Vector both = Q6_V_vmux_QVV(Q6_Q_vsetq_R(kHalf), low, Q6_V_vror_VR(high, kVectorBytes - kHalf));
  return bytes_as_words(Q6_Vb_vsub_VbVb(both, splat(0x08080808)));
}

// kApart: scales stand behind a row's nibbles.
template <uint32_t kBits, bool kApart>
[[gnu::always_inline]] inline const unsigned char* scale_of(const AddedRows& added, const unsigned char* row, uint32_t block) {
  return kApart ? row + added.scales + block * 2 : row + block * (2 + kBlockColumns * kBits / 8);
}

// Whether the scales of a span's blocks, all of them, are finite.
template <uint32_t kBits, bool kApart>
[[gnu::always_inline]] inline bool finite_scales(const AddedRows& added, const unsigned char* row, uint32_t block) {
  if (kBits == 16) return true;
  bool finite = true;
#pragma unroll
  for (uint32_t b = 0; b < kAddedBlocks; ++b) {
    const uint32_t scale = *reinterpret_cast<const uint16_t*>(scale_of<kBits, kApart>(added, row, block + b));
    finite = finite & ((scale >> 10 & kLargestField) != kLargestField);
  }
  return finite;
}

// Block `block` of a row.
template <uint32_t kBits, bool kApart, bool kFinite>
[[gnu::always_inline]] inline HVX_Vector floats_of_block(const AddedRows& added, const unsigned char* row, uint32_t block) {
  if constexpr (kBits == 16) {
    const HVX_Vector halves = HvxIntegers::load_unaligned(row + block * kBlockColumns * 2);
    return floats_of_halves(Q6_V_lo_W(Q6_Wuw_vunpack_Vuh(halves)));
  } else {
    const unsigned char* scale = scale_of<kBits, kApart>(added, row, block);
    const HVX_Vector bytes = HvxIntegers::load_unaligned(kApart ? row + block * (kBlockColumns * kBits / 8) : scale + 2);
    const HVX_Vector quants = kBits == 8 ? bytes_as_words(bytes) : nibbles_as_words(bytes);
    return floats_of_quants<kFinite>(quants, *reinterpret_cast<const uint16_t*>(scale));
  }
}

struct Sums {  // of neighbouring columns, in registers
  static constexpr uint32_t kColumns = 4;
  float a, b, c, d;
  [[gnu::always_inline]] void add(float h, const float* w) {
    const float e = w[0], f = w[1], g = w[2], i = w[3];
    a = __builtin_fmaf(h, e, a);
    b = __builtin_fmaf(h, f, b);
    c = __builtin_fmaf(h, g, c);
    d = __builtin_fmaf(h, i, d);
  }
};

// kRows rows of floats, kAddedSpan apart.
template <uint32_t kRows>
[[gnu::always_inline]] inline void add_span(const float* h, const float* w, uint32_t columns, float* y) {
  for (uint32_t c = 0; c < columns; c += Sums::kColumns, w += Sums::kColumns, y += Sums::kColumns) {
    Sums sums{y[0], y[1], y[2], y[3]};
#pragma unroll
    for (uint32_t row = 0; row < kRows; ++row) sums.add(h[row], w + row * kAddedSpan);
    y[0] = sums.a;
    y[1] = sums.b;
    y[2] = sums.c;
    y[3] = sums.d;
  }
}

[[gnu::always_inline]] inline bool fires(const AddedRows& added, uint32_t row) {
  bool any = false;
  for (uint32_t m = 0; m < added.batch; ++m) any = any || added.h[m * added.h_pitch + row] != 0;
  return any;
}

template <uint32_t kBits, bool kApart>
[[gnu::always_inline]] inline void add_rows(const AddedRows& added, uint32_t from, uint32_t to, float* made, float* y, uint32_t y_pitch) {
  for (uint32_t next = 0; next < added.count;) {
    uint32_t rows[kAddedTogether], count = 0;
    for (; next < added.count && count < kAddedTogether; ++next) {
      if (fires(added, next)) rows[count++] = next;
    }
    for (uint32_t block = from; block < to; block += kAddedBlocks) {
      const uint32_t blocks = to - block < kAddedBlocks ? to - block : kAddedBlocks, columns = blocks * kBlockColumns;
      for (uint32_t i = 0; i < count; ++i) {
        const unsigned char* row = added.rows + rows[i] * added.pitch;
        HVX_Vector* out = vectors_at(made + i * kAddedSpan);
        if (blocks == kAddedBlocks && finite_scales<kBits, kApart>(added, row, block)) {
          HVX_Vector floats[kAddedBlocks];  // in each other's packets
#pragma unroll
          for (uint32_t b = 0; b < kAddedBlocks; ++b) floats[b] = floats_of_block<kBits, kApart, true>(added, row, block + b);
#pragma unroll
          for (uint32_t b = 0; b < kAddedBlocks; ++b) out[b] = floats[b];
          continue;
        }
        for (uint32_t b = 0; b < blocks; ++b) out[b] = floats_of_block<kBits, kApart, false>(added, row, block + b);
      }
      for (uint32_t m = 0; m < added.batch; ++m) {
        float* sums = y + m * y_pitch + block * kBlockColumns;
        float h[kAddedTogether];
        bool all = count == kAddedTogether;
        for (uint32_t i = 0; i < count; ++i) {
          h[i] = added.h[m * added.h_pitch + rows[i]];
          all = all && h[i] != 0;
        }
        if (all) {
          add_span<kAddedTogether>(h, made, columns, sums);
          continue;
        }
        for (uint32_t i = 0; i < count; ++i) {
          if (h[i] != 0) add_span<1>(&h[i], made + i * kAddedSpan, columns, sums);
        }
      }
    }
  }
}

}  // namespace

extern "C" [[gnu::noinline]] void hvx_add_rows(const AddedRows* added, uint32_t from, uint32_t to, float* made, float* y,
                                               uint32_t y_pitch) {
  if (added->bits == 16) return add_rows<16, false>(*added, from, to, made, y, y_pitch);
  if (added->bits == 8) return add_rows<8, false>(*added, from, to, made, y, y_pitch);
  if (added->scales == 0) return add_rows<4, false>(*added, from, to, made, y, y_pitch);
  add_rows<4, true>(*added, from, to, made, y, y_pitch);
}

}  // namespace vitro::hexagon
