// HVX intrinsics with names for the few things that every kernel does.
#pragma once
#include <stdint.h>

typedef long HVX_Vector __attribute__((__vector_size__(128))) __attribute__((aligned(128)));
typedef long HVX_VectorPair __attribute__((__vector_size__(256))) __attribute__((aligned(256)));
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>

namespace vitro::hexagon {

inline HVX_Vector splat(int32_t word) { return Q6_V_vsplat_R(word); }
inline HVX_Vector splat_half(int32_t half) { return Q6_V_vsplat_R((half & 0xffff) | half << 16); }
inline const HVX_Vector* vectors_at(const void* p) { return static_cast<const HVX_Vector*>(p); }
inline HVX_Vector* vectors_at(void* p) { return static_cast<HVX_Vector*>(p); }

// vlut16 on low nibbles: byte 2i finds halfword i of the low result, byte 2i + 1 that of the high one. A vector holds four
// tables of 16 halfwords; entry e of table t is halfword 32 (t / 2) + 2 e + t % 2.
template <int kTable>
HVX_VectorPair look_up(HVX_Vector indices, HVX_Vector tables) {
  return Q6_Wh_vlut16_VbVhR_nomatch(indices, tables, kTable / 2 + 2 * (kTable % 2));
}
// vlut32: byte by byte, four tables of 32 bytes in a vector; entry e of table t is byte t / 2 of halfword 32 (t % 2) + e. Tables of 16
// stand there twice, so that it does not matter what the index's fifth bit is.
template <int kTable>
HVX_Vector look_up_bytes(HVX_Vector indices, HVX_Vector tables) {
  return Q6_Vb_vlut32_VbVbR_nomatch(indices, tables, kTable);
}
// A look-up fills the permuting and the shifting pipe, so this shift by four is a product, times 2^11 2 / 2^16, which goes beside one. The
// results' own high nibbles, sign bits among them, are ignored or masked.
inline HVX_Vector high_nibbles(HVX_Vector bytes) { return Q6_Vh_vmpy_VhRh_s1_sat(bytes, 0x08000800); }
// The same in loops that multiply, whose look-ups leave the shifting pipe free.
inline HVX_Vector shifted_nibbles(HVX_Vector bytes) { return Q6_Vuh_vlsr_VuhR(bytes, 4); }

}  // namespace vitro::hexagon
