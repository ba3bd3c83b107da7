// The stages that a phone computes in qfloat, written over an instruction set `I`: HVX of V68 and later
// (worker/hvx_float.hpp), which the emulator can not run, and a software model of it (qfloat_model.hpp), which tests run.
// The compiled HVX form is what their price is counted from (docs/design/hexagon.md).
//
// I has: Vector (128 bytes), Pair {lo, hi}; look_up<table>(indices, tables), high_nibbles, mask, splat_half, splat, add_half,
// add_word, interleave_halves (element i and i + 32 side by side), widen_bytes (with sign, even bytes in lo and odd ones in
// hi); and in qfloat Q16, Q32, PairQ32: multiply(hf, hf) -> Q16, multiply(Q16, hf), subtract_half(hf, hf) -> Q16,
// to_half(Q16); multiply_wide(hf, hf) -> PairQ32 of even and odd elements; subtract(sf, sf) -> Q32, from_float(sf),
// multiply(Q32, Q32), add(Q32, Q32), subtract(Q32, Q32), to_float(Q32); max_word (signed), subtract_word, low_halves(a, b) (of the
// words of a, then of b), interleave_words(a, b) -> words of both by turns, deal_words(v) -> even words twice, odd words twice,
// low_bytes(a, b) (of halfwords), sums_of_fours(bytes) -> words, rotate(Vector, bytes).
#pragma once
#include <stdint.h>

namespace vitro::hexagon {

// Super-groups of 4-bit weights to fp16, eight at a time with one vector of scales: look-up of the value, broadcast of the
// scales by look-up, one product (TTS-NPU 5.2.2). `indices`: the broadcast's, for four super-groups.
template <class I, int kGroup>
[[gnu::always_inline]] inline void dequantise_group(const typename I::Vector& in, const typename I::Vector& scales,
                                                    const typename I::Vector* indices, const typename I::Vector& values,
                                                    typename I::Vector* __restrict out) {
  constexpr int kFirst = kGroup / 4 * 2;  // of the scales' tables
  const auto low = I::template look_up<0>(in, values), high = I::template look_up<0>(I::high_nibbles(in), values);
  const auto s = I::template look_up<kFirst>(indices[kGroup % 4], scales), t = I::template look_up<kFirst + 1>(indices[kGroup % 4], scales);
  out[0] = I::to_half(I::multiply(low.lo, s.lo));
  out[1] = I::to_half(I::multiply(low.hi, s.hi));
  out[2] = I::to_half(I::multiply(high.lo, t.lo));
  out[3] = I::to_half(I::multiply(high.hi, t.hi));
}

template <class I>
[[gnu::always_inline]] inline void dequantise_q4(const typename I::Vector* in, const typename I::Vector* scales,
                                                 const typename I::Vector* indices, const typename I::Vector& values, uint32_t vectors,
                                                 typename I::Vector* __restrict out) {
  const typename I::Vector places[4] = {indices[0], indices[1], indices[2], indices[3]}, codes = values;
  for (uint32_t v = 0; v < vectors; v += 8, ++scales, in += 8, out += 32) {
    const typename I::Vector eight = *scales;
    dequantise_group<I, 0>(in[0], eight, places, codes, out);
    dequantise_group<I, 1>(in[1], eight, places, codes, out + 4);
    dequantise_group<I, 2>(in[2], eight, places, codes, out + 8);
    dequantise_group<I, 3>(in[3], eight, places, codes, out + 12);
    dequantise_group<I, 4>(in[4], eight, places, codes, out + 16);
    dequantise_group<I, 5>(in[5], eight, places, codes, out + 20);
    dequantise_group<I, 6>(in[6], eight, places, codes, out + 24);
    dequantise_group<I, 7>(in[7], eight, places, codes, out + 28);
  }
}

// 4-bit weights of ordinary groups, 32 of a column, as tiles of the matrix unit: a tile is as deep as a group, so one vector with the
// scale of each of its 32 columns twice serves all 16 vectors of the tile. in: [tiles][4]; scales: [tiles]; out: [tiles][16].
template <class I>
[[gnu::always_inline]] inline void dequantise_columns_q4(const typename I::Vector* in, const typename I::Vector* scales,
                                                         const typename I::Vector& values, uint32_t tiles,
                                                         typename I::Vector* __restrict out) {
  const typename I::Vector codes = values;
  for (uint32_t t = 0; t < tiles; ++t, ++scales, in += 4, out += 16) {
    const typename I::Vector s = *scales;
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const auto low = I::template look_up<0>(in[v], codes), high = I::template look_up<0>(I::high_nibbles(in[v]), codes);
      out[4 * v] = I::to_half(I::multiply(low.lo, s));
      out[4 * v + 1] = I::to_half(I::multiply(low.hi, s));
      out[4 * v + 2] = I::to_half(I::multiply(high.lo, s));
      out[4 * v + 3] = I::to_half(I::multiply(high.hi, s));
    }
  }
}

// 8-bit weights of ordinary groups to tiles, as those of 4 bits. 1536 + q is a half whose last bit counts ones, so adding q to its bits
// converts it; taking 1536 off again is exact. Elements 0 .. 63 of a vector stand in the even bytes, the others in the odd ones.
// in: [tiles][8]; scales: [tiles]; out: [tiles][16].
template <class I>
[[gnu::always_inline]] inline void dequantise_columns_q8(const typename I::Vector* in, const typename I::Vector* scales, uint32_t tiles,
                                                         typename I::Vector* __restrict out) {
  constexpr int kMagic = 0x6600;
  const auto magic = I::splat_half(kMagic);
  for (uint32_t t = 0; t < tiles; ++t, ++scales, in += 8, out += 16) {
    const typename I::Vector s = *scales;
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      const auto q = I::widen_bytes(in[v]);
      out[2 * v] = I::to_half(I::multiply(I::subtract_half(I::add_half(q.lo, magic), magic), s));
      out[2 * v + 1] = I::to_half(I::multiply(I::subtract_half(I::add_half(q.hi, magic), magic), s));
    }
  }
}

// Ablation: 4-bit weights to fp16 without a table of values. 1024 + q by setting bits, 1032 taken off again.
template <class I, int kGroup>
[[gnu::always_inline]] inline void convert_group(const typename I::Vector& in, const typename I::Vector& scales,
                                                 const typename I::Vector* indices, typename I::Vector* __restrict out) {
  constexpr int kFirst = kGroup / 4 * 2, kBits = 0x6400, kMagic = 0x6408;
  const auto bits = I::splat_half(kBits), magic = I::splat_half(kMagic), mask = I::splat_half(0x0f0f);
  const auto low = I::widen_bytes(I::mask(in, mask)), high = I::widen_bytes(I::mask(I::high_nibbles(in), mask));
  const auto s = I::template look_up<kFirst>(indices[kGroup % 4], scales), t = I::template look_up<kFirst + 1>(indices[kGroup % 4], scales);
  out[0] = I::to_half(I::multiply(I::subtract_half(I::add_half(low.lo, bits), magic), s.lo));
  out[1] = I::to_half(I::multiply(I::subtract_half(I::add_half(low.hi, bits), magic), s.hi));
  out[2] = I::to_half(I::multiply(I::subtract_half(I::add_half(high.lo, bits), magic), t.lo));
  out[3] = I::to_half(I::multiply(I::subtract_half(I::add_half(high.hi, bits), magic), t.hi));
}

template <class I>
[[gnu::always_inline]] inline void convert_q4(const typename I::Vector* in, const typename I::Vector* scales,
                                              const typename I::Vector* indices, uint32_t vectors, typename I::Vector* __restrict out) {
  const typename I::Vector places[4] = {indices[0], indices[1], indices[2], indices[3]};
  for (uint32_t v = 0; v < vectors; v += 8, ++scales, in += 8, out += 32) {
    const typename I::Vector eight = *scales;
    convert_group<I, 0>(in[0], eight, places, out);
    convert_group<I, 1>(in[1], eight, places, out + 4);
    convert_group<I, 2>(in[2], eight, places, out + 8);
    convert_group<I, 3>(in[3], eight, places, out + 12);
    convert_group<I, 4>(in[4], eight, places, out + 16);
    convert_group<I, 5>(in[5], eight, places, out + 20);
    convert_group<I, 6>(in[6], eight, places, out + 24);
    convert_group<I, 7>(in[7], eight, places, out + 28);
  }
}

// Integer sums of blocks that the matrix unit left (block_plan.hpp): acc += sum * (d_w * d_x) over blocks ascending. Sums are below 2^22,
// so adding them to the bits of 1.5 * 2^23 converts them. A vector is 32 columns of the result, the next row's is the next one, the next
// block's `pitch` vectors on. kRows rows share the conversion of a block's scales, which stand twice each.
// sums: [blocks][pitch]; scales: [blocks]; x_scales: float32 [rows][x_pitch] from the first block on; y: float32 [rows][y_pitch], added to.
template <class I, uint32_t kRows>
[[gnu::always_inline]] inline void scale_sums(const typename I::Vector* sums, uint32_t pitch, const typename I::Vector* scales,
                                              const int32_t* x_scales, uint32_t x_pitch, uint32_t blocks, typename I::Vector* y,
                                              uint32_t y_pitch) {
  constexpr int kOne = 0x3c00, kMagic = 0x4b400000;
  const auto magic = I::splat(kMagic);
  const auto one = I::splat_half(kOne);
  typename I::Q32 acc[kRows];
#pragma GCC unroll 4
  for (uint32_t r = 0; r < kRows; ++r) acc[r] = I::from_float(y[r * y_pitch]);
  for (uint32_t b = 0; b < blocks; ++b, sums += pitch) {
    const auto weights = I::multiply_wide(scales[b], one).lo;
#pragma GCC unroll 4
    for (uint32_t r = 0; r < kRows; ++r) {
      const auto sum = I::subtract(I::add_word(sums[r], magic), magic);
      acc[r] = I::add(acc[r], I::multiply(sum, I::multiply(weights, I::from_float(I::splat(x_scales[r * x_pitch + b])))));
    }
  }
#pragma GCC unroll 4
  for (uint32_t r = 0; r < kRows; ++r) y[r * y_pitch] = I::to_float(acc[r]);
}

// Of 128 activations in blocks of kBlock: the word of a vector of scales that belongs to block b.
template <uint32_t kBlock>
constexpr uint32_t scale_word(uint32_t b) {
  return kBlock == 32 ? b / 2 + b % 2 * 2 : b;
}

// Float32 activations to int8, as the int8 contract rounds them in blocks of kBlock: scale = most / 127, q = round(x 127 / most), with
// most the block's largest |x|. Look-up tables are made of them (T-MAC's tables; T-MAN 4.3). No division: 1 / most comes from an integer
// guess, whose relative error is below 1/8, and three of Newton's steps, for all blocks of a vector at once. The last bits of
// 1.5 * 2^23 + q are q.
// x: [vectors][4]; quants: [vectors]; scales: [vectors], that of block b in word scale_word(b); sums: [vectors], that of block b in word
// b kBlock / 4. kWide: 14 bits in place of 8, quants [vectors][2] of halfwords, and sums where the scales are.
template <class I, uint32_t kBlock, bool kWide = false>
[[gnu::always_inline]] inline void quantise_activations(const typename I::Vector* x, uint32_t vectors,
                                                        typename I::Vector* __restrict quants, typename I::Vector* __restrict scales,
                                                        typename I::Vector* __restrict sums) {
  constexpr int kGuess = 0x7ef311c7, kTwo = 0x40000000, kMagic = 0x4b400000;
  constexpr int kMost = kWide ? 0x45fff800 : 0x42fe0000, kPart = kWide ? 0x39000400 : 0x3c010204;  // 8191 or 127, and its reciprocal
  constexpr uint32_t kOfBlock = kBlock / 32, kBlocks = 4 / kOfBlock;
  const auto positive = I::splat(0x7fffffff);
  const auto two = I::from_float(I::splat(kTwo)), most_quant = I::from_float(I::splat(kMost)), part = I::from_float(I::splat(kPart)),
             magic = I::from_float(I::splat(kMagic));
  const auto larger_of_both = [](const typename I::Vector& a, const typename I::Vector& b) {  // lanes of a, then of b, by turns
    const auto both = I::interleave_words(a, b);
    return I::max_word(both.lo, both.hi);
  };
  for (uint32_t v = 0; v < vectors; ++v, x += 4, quants += kWide ? 2 : 1, ++scales, ++sums) {
    typename I::Vector top[kBlocks], words[4];
#pragma GCC unroll 4
    for (uint32_t b = 0; b < kBlocks; ++b) {
      top[b] = I::mask(x[b * kOfBlock], positive);
#pragma GCC unroll 4
      for (uint32_t i = 1; i < kOfBlock; ++i) top[b] = I::max_word(top[b], I::mask(x[b * kOfBlock + i], positive));
    }
    auto tops = top[0];
    if constexpr (kBlocks == 2) tops = larger_of_both(top[0], top[1]);
    if constexpr (kBlocks == 4) tops = larger_of_both(larger_of_both(top[0], top[1]), larger_of_both(top[2], top[3]));
#pragma GCC unroll 5
    for (uint32_t bytes = 64; bytes >= 4 * kBlocks; bytes /= 2) tops = I::max_word(tops, I::rotate(tops, static_cast<int>(bytes)));
    const auto most = I::from_float(tops);
    auto inverse = I::from_float(I::subtract_word(I::splat(kGuess), tops));
#pragma GCC unroll 3
    for (int step = 0; step < 3; ++step) inverse = I::multiply(inverse, I::subtract(two, I::multiply(most, inverse)));
    *scales = I::to_float(I::multiply(most, part));
    const auto times = I::to_float(I::multiply(inverse, most_quant));
    typename I::Vector of_block[4] = {times, times, times, times};
    if constexpr (kBlocks > 1) {
      const auto halves = I::deal_words(times);
      of_block[0] = halves.lo;
      of_block[1] = halves.hi;
      if constexpr (kBlocks == 4) {  // words 0, 2, 1, 3: scale_word()
        const auto first = I::deal_words(halves.lo), second = I::deal_words(halves.hi);
        of_block[0] = first.lo;
        of_block[1] = first.hi;
        of_block[2] = second.lo;
        of_block[3] = second.hi;
      }
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      words[i] = I::to_float(I::add(I::multiply(I::from_float(x[i]), I::from_float(of_block[i / kOfBlock])), magic));
    }
    if constexpr (kWide) {
      quants[0] = I::low_halves(words[0], words[1]);
      quants[1] = I::low_halves(words[2], words[3]);
      typename I::Vector part[kBlocks];
#pragma GCC unroll 4
      for (uint32_t i = 0; i < 4; ++i) {
        const auto whole = I::subtract_word(words[i], I::splat(kMagic));
        part[i / kOfBlock] = i % kOfBlock == 0 ? whole : I::add_word(part[i / kOfBlock], whole);
      }
      const auto sum_of_both = [](const typename I::Vector& a, const typename I::Vector& b) {
        const auto both = I::interleave_words(a, b);
        return I::add_word(both.lo, both.hi);
      };
      auto all = part[0];
      if constexpr (kBlocks == 2) all = sum_of_both(part[0], part[1]);
      if constexpr (kBlocks == 4) all = sum_of_both(sum_of_both(part[0], part[1]), sum_of_both(part[2], part[3]));
#pragma GCC unroll 5
      for (uint32_t bytes = 64; bytes >= 4 * kBlocks; bytes /= 2) all = I::add_word(all, I::rotate(all, static_cast<int>(bytes)));
      *sums = all;
      continue;
    }
    *quants = I::low_bytes(I::low_halves(words[0], words[1]), I::low_halves(words[2], words[3]));
    auto sum = I::sums_of_fours(*quants);
#pragma GCC unroll 5
    for (int bytes = 4; bytes < static_cast<int>(kBlock); bytes *= 2) sum = I::add_word(sum, I::rotate(sum, bytes));
    *sums = sum;
  }
}

}  // namespace vitro::hexagon
