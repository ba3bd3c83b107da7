// Rows of weights that lie in places of their own, as a file has them.
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/transpose.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro::hexagon {
namespace {

// A piece of a row is a vector of quants, kBlocks blocks of them, each with a scale in front.
template <uint32_t kQuants>
struct Piece {
  static constexpr uint32_t kBlocks = kVectorBytes / kQuants, kBlock = 2 + kQuants;
  static constexpr uint32_t kLast = kVectorBytes - kQuants;  // where the last block's quants stand, of a vector that begins 2 kBlocks later

  // Of vrdelta, which moves bytes by 1, 2, .. 64 where the control has that bit: the quants of a piece's other blocks close up. Bytes that
  // keep their order and come no further apart never meet.
  alignas(kVectorBytes) unsigned char closing[kVectorBytes] = {};
  constexpr Piece() {
    for (uint32_t to = 0; to < kLast; ++to) {
      uint32_t at = to + 2 * (to / kQuants + 1);
      for (uint32_t bit = 1; bit < kVectorBytes; bit <<= 1) {
        if (((to ^ at) & bit) == 0) continue;
        at ^= bit;
        closing[at] |= bit;
      }
    }
  }
};
constexpr Piece<32> kQ8Piece;
constexpr Piece<16> kQ4Piece;

struct Lanes {
  alignas(kVectorBytes) uint32_t word[kVectorBytes / 4];
  constexpr Lanes() : word() {
    for (uint32_t i = 0; i < kVectorBytes / 4; ++i) word[i] = i;
  }
};
constexpr Lanes kLanes;

// Bytes 1 and 2 of each word change places.
[[gnu::always_inline]] inline void order_bytes(HVX_Vector& a, HVX_Vector& b) {
  const HVX_VectorPair bytes = Q6_Wb_vshuffoe_VbVb(b, a);
  const HVX_VectorPair halves = Q6_Wh_vshuffoe_VhVh(Q6_V_hi_W(bytes), Q6_V_lo_W(bytes));
  const HVX_VectorPair both = Q6_Wb_vshuffoe_VbVb(Q6_V_hi_W(halves), Q6_V_lo_W(halves));
  a = Q6_V_lo_W(both);
  b = Q6_V_hi_W(both);
}

// The low nibbles of both, and the high ones: those of b in the high halves.
[[gnu::always_inline]] inline void regroup_nibbles(HVX_Vector& a, HVX_Vector& b) {
  const HVX_Vector other = Q6_V_vand_VV(Q6_V_vxor_VV(shifted_nibbles(a), b), splat(0x0f0f0f0f));
  a = Q6_V_vxor_VV(a, Q6_Vh_vasl_VhR(other, 4));
  b = Q6_V_vxor_VV(b, other);
}

// Blocks' vectors of a strip: a block's vector g has columns 4 g of the low nibbles, and 4 g + 16 of the high ones; a strip's has columns
// 8 g and 8 g + 4.
[[gnu::always_inline]] inline void regroup_strip(HVX_Vector* v) {
  for (uint32_t i = 0; i < kTile; i += 4) {
    HVX_Vector a = v[i], b = v[i + 1], c = v[i + 2], d = v[i + 3];
    regroup_nibbles(a, b);
    regroup_nibbles(c, d);
    v[i] = a;
    v[i + 1] = c;
    v[i + 2] = b;
    v[i + 3] = d;
  }
}

// Every row's scale of a block, twice. `distance`: bytes from one block's to the next one's.
template <uint32_t kBlocks>
[[gnu::always_inline]] inline void gather_scales(const unsigned char* from, uint32_t distance, uint32_t pitch, HVX_Vector* scales) {
  const HVX_Vector offsets = Q6_Vw_vmpyie_VwVuh(*vectors_at(kLanes.word), splat_half(static_cast<int32_t>(pitch)));
  const uint32_t reach = kTile * pitch;
  for (uint32_t b = 0; b < kBlocks; ++b) {
    Q6_vgather_ARMWw(scales + b, reinterpret_cast<uintptr_t>(from + b * distance), reach - 1, Q6_W_vcombine_VV(offsets, offsets));
  }
}

// Rows begin with a vector, so the piece begins at the same byte of one in all of them, and ends in the next one.
template <class Form>
[[gnu::always_inline]] inline void transpose_piece(const Form& form, const unsigned char* rows, uint32_t pitch, HVX_Vector* out) {
  const uint32_t begin = reinterpret_cast<uintptr_t>(rows) % kVectorBytes, later = begin + 2 * Form::kBlocks;
  const HVX_Vector control = *vectors_at(form.closing);
  const HVX_VectorPred before_last = Q6_Q_vsetq_R(Form::kLast), before_later = Q6_Q_vsetq2_R(later);
  const auto rows_of = [=](uint32_t half) {
    return [=, row = rows - begin + half * kHalfOfRows * pitch](uint32_t) mutable {
      const HVX_Vector first = vectors_at(row)[0], second = vectors_at(row)[1];
      row += pitch;
      const HVX_Vector most = Q6_V_vrdelta_VV(Q6_V_valign_VVR(second, first, begin), control);
      return Q6_V_vmux_QVV(before_last, most, Q6_V_vror_VR(Q6_V_vmux_QVV(before_later, second, first), later));
    };
  };
  transpose(rows_of, order_bytes, out);
}

}  // namespace

extern "C" {

[[gnu::noinline]] void hvx_q8_rows(const unsigned char* rows, uint32_t pitch, unsigned char* scales, unsigned char* values) {
  gather_scales<Piece<32>::kBlocks>(rows, Piece<32>::kBlock, pitch, vectors_at(scales));
  transpose_piece(kQ8Piece, rows, pitch, vectors_at(values));
}

[[gnu::noinline]] void hvx_q4_rows(const unsigned char* rows, uint32_t pitch, unsigned char* scales, unsigned char* values) {
  gather_scales<Piece<16>::kBlocks>(rows, Piece<16>::kBlock, pitch, vectors_at(scales));
  transpose_piece(kQ4Piece, rows, pitch, vectors_at(values));
  regroup_strip(vectors_at(values));
}

// Whole blocks of nibbles have no gaps: a piece is a vector of each row as it lies.
[[gnu::noinline]] void hvx_nibble_rows(const unsigned char* rows, const unsigned char* from, uint32_t pitch, unsigned char* scales,
                                       unsigned char* values) {
  gather_scales<Piece<16>::kBlocks>(from, sizeof(uint16_t), pitch, vectors_at(scales));
  const auto rows_of = [=](uint32_t half) {
    return [=, row = rows + half * kHalfOfRows * pitch](uint32_t) mutable {
      const HVX_Vector nibbles = *vectors_at(row);
      row += pitch;
      return nibbles;
    };
  };
  transpose(rows_of, order_bytes, vectors_at(values));
  regroup_strip(vectors_at(values));
}

}  // extern "C"

}  // namespace vitro::hexagon
