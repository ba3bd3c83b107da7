// Dequantisation to fp16 without the layouts and tables of TTS-NPU and T-MAN: what these are compared with. Written over an instruction
// set as float_stages.hpp is: in qfloat for its packets (tools/hexagon/layouts.cpp), in IEEE floats in the worker, where tests compare the
// results to the bit. I has beside what is named there: load_unaligned, splat_scalar, permute, first_half, scatter_first_half,
// shift_bytes, unpack_bytes, unpack_halves, interleave, narrow.
#pragma once
#include <stdint.h>

namespace vitro::hexagon {

inline constexpr uint32_t kQ4Block = 18;  // bytes of a group of q4_0 as a file has it: scale, then codes
inline constexpr uint32_t kBlocksTogether = 4;

inline int scale_at(const unsigned char* block) {
  __asm__("" : "+r"(block));  // a vector was loaded from there, out of which the compiler would take the scale by way of memory
  uint16_t scale;
  __builtin_memcpy(&scale, block, sizeof scale);
  return scale;
}

// The control of a vdelta that takes the codes of four groups to the even bytes, for byte `to` of the vector: exchanges by 64 bytes first,
// then by 32, and so on. It is a path for each group's run of bytes, since each exchange leaves runs that are short enough to stay apart.
constexpr uint32_t spread_from(uint32_t to) { return to / 2 / 16 * kQ4Block + 2 + to / 2 % 16; }
constexpr void spread_codes(uint8_t (&control)[128]) {
  for (uint8_t& bits : control) bits = 0;
  for (uint32_t to = 0; to < 128; to += 2) {
    uint32_t at = spread_from(to);
    for (uint32_t step = 64; step > 0; step /= 2) {
      const uint32_t next = (at & ~step) | (to & step);
      if (next != at) control[next] |= static_cast<uint8_t>(step);
      at = next;
    }
  }
}

// TTS-NPU 7.4, "HMX layout": groups of 32 lie in the order of HMX tiles, but each with its scale in front. Four groups a trip, as many as
// one load brings; the last one may read 56 bytes more. `order`: spread_codes(). out: [trips][2].
template <class I>
[[gnu::always_inline]] inline void uncoalesced_q4(const unsigned char* blocks, const typename I::Vector& values,
                                                  const typename I::Vector& order, uint32_t trips, typename I::Vector* __restrict out) {
  const typename I::Vector table = values, spread = order;
  for (uint32_t trip = 0; trip < trips; ++trip, blocks += kBlocksTogether * kQ4Block, out += 2) {
    const auto codes = I::permute(I::load_unaligned(blocks), spread);
    const auto q = I::template interleave<32>(I::template look_up<0>(codes, table).lo,
                                              I::template look_up<0>(I::high_nibbles(codes), table).lo);
    const auto scale = [blocks](uint32_t block) { return I::splat_scalar(scale_at(blocks + block * kQ4Block)); };
    out[0] = I::to_half(I::multiply(q.lo, I::first_half(scale(0), scale(1))));
    out[1] = I::to_half(I::multiply(q.hi, I::first_half(scale(2), scale(3))));
  }
}

// Element of a group that lane `lane` (of 32) of scatter_q4() has.
constexpr uint32_t scattered_element(uint32_t lane) { return lane / 16 * 16 + lane % 8 * 2 + lane / 8 % 2; }

// TTS-NPU 7.4, the common layout: groups of 32 along the depth as a file has them, which are columns of tiles. A group at a time: its 16
// bytes of codes in two halves of nibbles, its scale, and a scatter of these 32 halfwords. `places`: their offsets in bytes from a column's
// first element, by lane; the next group's column begins `pitch` bytes on. The last group may read 112 bytes more.
template <class I>
[[gnu::always_inline]] inline void scatter_q4(const unsigned char* blocks, const typename I::Vector& values,
                                              const typename I::Vector& places, uint32_t groups, uint32_t pitch, uintptr_t column) {
  const typename I::Vector table = values, offsets = places;
  for (uint32_t g = 0; g < groups; ++g, blocks += kQ4Block, column += pitch) {
    const auto codes = I::load_unaligned(blocks + 2);
    const auto low = I::template look_up<0>(codes, table), high = I::template look_up<0>(I::high_nibbles(codes), table);
    const auto a = I::template interleave<16>(low.lo, low.hi).lo, b = I::template interleave<16>(high.lo, high.hi).lo;
    const auto q = I::template interleave<32>(a, b).lo;
    I::scatter_first_half(column, offsets, I::to_half(I::multiply(q, I::splat_scalar(scale_at(blocks)))));
  }
}

// Of convert_planes_w4(): where the weight of bit `bit` of byte `byte` of the planes stands in the 1024 of a trip.
constexpr uint32_t converted_place(uint32_t byte, uint32_t bit) { return bit * 128 + byte / 64 * 64 + byte % 32 * 2 + byte % 64 / 32; }

// The codes of bit kBit of each byte of the planes, as halves.
template <class I, int kBit>
[[gnu::always_inline]] inline auto codes_of(const typename I::Vector* planes) {
  const auto one = I::splat(0x01010101);
  const auto bit = [&](int plane) { return I::mask(I::shift_bytes(planes[plane], kBit), one); };
  const auto low = I::either(bit(0), I::template shift_half<1>(bit(1)));
  return I::unpack_bytes(I::either(low, I::either(I::template shift_half<2>(bit(2)), I::template shift_half<3>(bit(3)))));
}

template <class I, int kBit>
[[gnu::always_inline]] inline void convert_bit(const typename I::Vector* planes, const typename I::Vector& zero,
                                               const typename I::Q32& scale, typename I::Vector* __restrict out) {
  const auto magic = I::splat(0x4b000000);  // 2^23: codes are its last bits
  const auto halves = codes_of<I, kBit>(planes);
  const auto value = [&](const typename I::Vector& words) { return I::multiply(I::subtract(I::either(words, magic), zero), scale); };
  const auto first = I::unpack_halves(halves.lo), second = I::unpack_halves(halves.hi);
  out[2 * kBit] = I::narrow({value(first.lo), value(first.hi)});
  out[2 * kBit + 1] = I::narrow({value(second.lo), value(second.hi)});
}

// T-MAN 6.5.1, "ConvertDQ": 4-bit weights in bit planes (bit j of byte k of plane i is bit i of a code) to codes by shifts and masks, then
// words, float32, less the zero point, times the scale, and fp16: 1024 weights a trip. planes: [trips][4]; scales, zeros: float32
// [trips][32], zeros as 2^23 and the zero point; out: [trips][16].
template <class I>
[[gnu::always_inline]] inline void convert_planes_w4(const typename I::Vector* planes, const typename I::Vector* scales,
                                                     const typename I::Vector* zeros, uint32_t trips,
                                                     typename I::Vector* __restrict out) {
  for (uint32_t trip = 0; trip < trips; ++trip, planes += 4, ++scales, ++zeros, out += 16) {
    const typename I::Vector p[4] = {planes[0], planes[1], planes[2], planes[3]}, zero = *zeros;
    const auto scale = I::from_float(*scales);
    convert_bit<I, 0>(p, zero, scale, out), convert_bit<I, 1>(p, zero, scale, out), convert_bit<I, 2>(p, zero, scale, out);
    convert_bit<I, 3>(p, zero, scale, out), convert_bit<I, 4>(p, zero, scale, out), convert_bit<I, 5>(p, zero, scale, out);
    convert_bit<I, 6>(p, zero, scale, out), convert_bit<I, 7>(p, zero, scale, out);
  }
}

template <class I, int kBit>
[[gnu::always_inline]] inline void convert_bit_in_halves(const typename I::Vector* planes, const typename I::Vector& zero,
                                                         const typename I::Vector& scale, typename I::Vector* __restrict out) {
  const auto magic = I::splat(0x64006400);  // 1024 twice: codes are its last bits
  const auto halves = codes_of<I, kBit>(planes);
  out[2 * kBit] = I::to_half(I::multiply(I::subtract_half(I::either(halves.lo, magic), zero), scale));
  out[2 * kBit + 1] = I::to_half(I::multiply(I::subtract_half(I::either(halves.hi, magic), zero), scale));
}

// The same conversion without words: codes become fp16 by a bit pattern, as kernels for GPUs do it (FasterTransformer, Marlin). scales,
// zeros: fp16 [trips][64], zeros as 1024 and the zero point. The weight of bit `bit` of byte `byte` stands at bit * 128 + byte.
template <class I>
[[gnu::always_inline]] inline void convert_planes_w4_in_halves(const typename I::Vector* planes, const typename I::Vector* scales,
                                                               const typename I::Vector* zeros, uint32_t trips,
                                                               typename I::Vector* __restrict out) {
  for (uint32_t trip = 0; trip < trips; ++trip, planes += 4, ++scales, ++zeros, out += 16) {
    const typename I::Vector p[4] = {planes[0], planes[1], planes[2], planes[3]}, zero = *zeros, scale = *scales;
    convert_bit_in_halves<I, 0>(p, zero, scale, out), convert_bit_in_halves<I, 1>(p, zero, scale, out);
    convert_bit_in_halves<I, 2>(p, zero, scale, out), convert_bit_in_halves<I, 3>(p, zero, scale, out);
    convert_bit_in_halves<I, 4>(p, zero, scale, out), convert_bit_in_halves<I, 5>(p, zero, scale, out);
    convert_bit_in_halves<I, 6>(p, zero, scale, out), convert_bit_in_halves<I, 7>(p, zero, scale, out);
  }
}

}  // namespace vitro::hexagon
