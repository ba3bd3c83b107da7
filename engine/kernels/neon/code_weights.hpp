// Integer weights of a tile as operands of the dot product instructions, one quarter (4 of its 16 rows) in a register; unnamed namespace
// as in vector.hpp. engine/quant/tiles.hpp has the layout: q4_0 and q8_0 lie as codes of 4 and 8 bits in groups of 32.
#pragma once
#include "engine/kernels/common/code_tiles.hpp"
#include "engine/kernels/neon/vector.hpp"

namespace vitro {
namespace {

// Calls f.operator()<0>(), ... <N - 1>(): g++ 12 keeps an array in registers where the language itself says which element is meant, but not
// where it finds out by unrolling a loop.
template <int N, int I = 0, class F>
[[gnu::always_inline]] inline void times(F f) {
  if constexpr (I < N) {
    f.template operator()<I>();
    times<N, I + 1>(f);
  }
}

template <int Shift, unsigned Mask>
[[gnu::always_inline]] inline uint8x16_t field(uint8x16_t v) {
  if constexpr (Shift < 0) v = vshlq_n_u8(v, -Shift);
  if constexpr (Shift > 0) v = vshrq_n_u8(v, Shift);
  constexpr bool kNothingElse = Shift > 0 && Mask == 255u >> (Shift > 0 ? Shift : 0);
  return kNothingElse ? v : vandq_u8(v, vdupq_n_u8(Mask));
}

// Codes of `Stored` bits of a quarter whose lines (16 bytes, 64 apart) begin at p, times Step. A quad is 4 columns of 4 rows, row by row;
// an octet is 8 columns of rows 0 and 1 (Half 0) or 2 and 3.
template <int Stored, int Step = 1>
struct CodeFields {
  static uint8x16_t line(const std::byte* p, int i) { return vld1q_u8(reinterpret_cast<const std::uint8_t*>(p) + 64 * i); }
  template <int Half>
  static uint8x16_t zip(uint8x16_t first, uint8x16_t second) {
    const uint32x4_t a = vreinterpretq_u32_u8(first), b = vreinterpretq_u32_u8(second);
    return vreinterpretq_u8_u32(Half == 0 ? vzip1q_u32(a, b) : vzip2q_u32(a, b));
  }
  // Shift and mask of the bit that a line has for each of 8 quads, as bit `To` of a code.
  template <int Quad, int To>
  static uint8x16_t bit(uint8x16_t v) {
    return field<Quad - To, 1u << To>(v);
  }

  template <int Quad>
  static uint8x16_t quad(const std::byte* p) {
    if constexpr (Stored == 8) return line(p, Quad);
    if constexpr (Stored == 4) return field<Quad / 4 * 4, 15>(line(p, Quad % 4));
    if constexpr (Stored == 2) return field<Quad / 2 * 2, 3>(line(p, Quad % 2));
    if constexpr (Stored == 1) return bit<Quad, Step - 1>(line(p, 0));
    if constexpr (Stored == 3) return vorrq_u8(field<Quad / 2 * 2, 3>(line(p, Quad % 2)), bit<Quad, 2>(line(p, 2)));
  }
  template <int Octet, int Half>
  static uint8x16_t octet(const std::byte* p) {
    constexpr int kQuad = 2 * Octet;
    const auto lines = [&](int i) __attribute__((always_inline)) { return zip<Half>(line(p, i), line(p, i + 1)); };
    const auto bits = [&](int i) __attribute__((always_inline)) { return zip<Half>(line(p, i), vshrq_n_u8(line(p, i), 1)); };
    if constexpr (Stored == 8) return lines(kQuad);
    if constexpr (Stored == 4) return field<kQuad / 4 * 4, 15>(lines(kQuad % 4));
    if constexpr (Stored == 2) return field<kQuad, 3>(lines(0));
    if constexpr (Stored == 1) return bit<kQuad, Step - 1>(bits(0));
    if constexpr (Stored == 3) return vorrq_u8(field<kQuad, 3>(lines(0)), bit<kQuad, 2>(bits(2)));
  }
};

// What a pass multiplies with. Group: 32 where all blocks have it, 0: that of `form`. ZeroPoints: of each block; else the zero is in the
// starts (start_sums() of register_pass.hpp).
template <int Stored, bool ZeroPoints, int Group = 0>
struct CodeWeights {
  static constexpr int kStored = Stored;
  static constexpr bool kZeroPoints = ZeroPoints, kUnpacked = Stored == 8 && Group == 0;  // or codes of eight bits
  using Fields = CodeFields<Stored, Stored == 1 && !ZeroPoints ? 2 : 1>;
  CodeForm form;

  [[gnu::always_inline]] std::size_t group() const { return Group != 0 ? Group : form.group; }
  [[gnu::always_inline]] bool row_scale() const { return Group == 0 && form.row_scale; }
  [[gnu::always_inline]] std::size_t lead_bytes(std::size_t blocks) const { return Group != 0 ? 0 : form.lead_bytes(blocks); }
  [[gnu::always_inline]] std::size_t block_bytes() const { return (row_scale() ? 0 : 32) + group() / 32 * Stored * 64; }
  static float32x4_t scales(const std::byte* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const Half*>(p)))); }
  template <int Quad>
  int8x16_t quad(const std::byte* p) const {
    return vreinterpretq_s8_u8(Fields::template quad<Quad>(p));
  }
  template <int Octet, int Half>
  int8x16_t octet(const std::byte* p) const {
    return vreinterpretq_s8_u8(Fields::template octet<Octet, Half>(p));
  }
};

// Nibbles that name one of 16 integers.
struct ValueWeights : CodeWeights<4, false, 32> {
  int8x16_t table;
  float factor;

  float32x4_t scales(const std::byte* p) const { return vmulq_n_f32(CodeWeights::scales(p), factor); }
  template <int Quad>
  int8x16_t quad(const std::byte* p) const {
    return vqtbl1q_s8(table, Fields::quad<Quad>(p));
  }
  template <int Octet, int Half>
  int8x16_t octet(const std::byte* p) const {
    return vqtbl1q_s8(table, Fields::octet<Octet, Half>(p));
  }
};

}  // namespace
}  // namespace vitro
